// spool.h: rows on their way to the database, in files of this machine: one append a row, so that
// a call waits for no database and a killed process loses nothing.
//
// A spool is a folder below its root that belongs to one running process, which holds the lock in
// it: segments NNNNNNNNNN.spool, each a header (magic, offset up to which the database has the
// rows) and records (length, checksum, payload: docs/ledger.md). A folder whose lock nobody holds
// is what a killed process left: another one adopts it. Rows may come out twice (the offset is
// written after the database has them) and are told apart by their id. An append is one write(2):
// what it wrote survives the process at once, and a power cut after sync().
// Thread-safety: SpoolWriter, one thread; SpoolReader, one thread, which may be another.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ledger/call_row.h"

namespace hg::ledger {

struct SpoolLimits {
  std::uint64_t segment_bytes = std::uint64_t{1} << 20;  // A segment ends once it is this long.
  std::uint64_t total_bytes = std::uint64_t{1} << 30;    // Of the folder; past it rows are refused.
};

// Up to where rows are whole, told by the one who appends to the one who reads.
struct SpoolMark {
  std::uint64_t segment = 0;
  std::uint64_t end = 0;  // Bytes.
};

// A folder of the root, locked for as long as this lives.
class SpoolFolder {
 public:
  // A new one, named `owner` (a file name that nobody had before). Errc::unavailable.
  [[nodiscard]] static Result<SpoolFolder> create(const std::string& root,
                                                  const std::string& owner);
  // Those that nobody holds any more. What cannot be read is passed over.
  [[nodiscard]] static std::vector<SpoolFolder> abandoned(const std::string& root);

  ~SpoolFolder();
  SpoolFolder(SpoolFolder&& other) noexcept;
  SpoolFolder& operator=(SpoolFolder&& other) noexcept;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Segments in their order.
  [[nodiscard]] std::vector<std::uint64_t> segments() const;
  // Removes the folder, if it has no segments, and gives the lock back.
  void remove_if_empty();

 private:
  SpoolFolder(std::string root, std::string path, int lock)
      : root_(std::move(root)), path_(std::move(path)), lock_(lock) {}

  std::string root_;
  std::string path_;
  int lock_ = -1;  // Descriptor.
};

class SpoolWriter {
 public:
  // The folder outlives it.
  SpoolWriter(const SpoolFolder& folder, const SpoolLimits& limits);
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  // Errc::too_large: the spool is full; Errc::unavailable: the disk is, or will not have it. In
  // both cases nothing of the row is left behind.
  [[nodiscard]] Result<void> append(const CallRow& row);

  // From any thread.
  [[nodiscard]] SpoolMark mark() const;
  // Tells how many bytes the reader took off the disk. From any thread.
  void freed(std::uint64_t bytes);

 private:
  [[nodiscard]] Result<void> begin_segment();
  void end_segment();

  std::string path_;
  SpoolLimits limits_;
  int file_ = -1;              // Descriptor of the present segment; -1: none is open.
  std::uint64_t segment_ = 0;  // Its number; 0: there was none yet.
  std::uint64_t length_ = 0;   // Bytes of it that are whole.
  std::string record_;         // Kept for its memory.
  mutable std::mutex mutex_;   // For the rest.
  SpoolMark mark_;
  std::uint64_t held_bytes_ = 0;  // Of all segments.
};

// Reads one folder's segments in their order and removes those that are done.
class SpoolReader {
 public:
  // The folder outlives it.
  explicit SpoolReader(const SpoolFolder& folder);
  ~SpoolReader();
  SpoolReader(const SpoolReader&) = delete;
  SpoolReader& operator=(const SpoolReader&) = delete;

  // The next rows, at most `most`, all of one segment; none when all up to `until` were handed out.
  // What cannot be read is stepped over and counted in damaged(). What was handed out before is
  // acknowledged, or rewound, first.
  [[nodiscard]] std::vector<CallRow> next(std::size_t most, const SpoolMark& until);

  // The database has all rows that next() handed out: marks them in the segment, and removes it if
  // it is over. Answers the bytes that were taken off the disk since the last time.
  [[nodiscard]] std::uint64_t acknowledge(const SpoolMark& until);
  // Hands out again what was not acknowledged.
  void rewind();

  // Forces what there is of the present segment to the disk.
  void sync();

  struct Damage {
    std::uint64_t places = 0;  // Each is at least one row.
    std::uint64_t bytes = 0;
  };
  // Since the last question.
  [[nodiscard]] Damage damaged();

  // An abandoned folder has no writer: all of its segments are over.
  static constexpr SpoolMark kEverything{~std::uint64_t{0}, ~std::uint64_t{0}};

 private:
  [[nodiscard]] bool open_next(const SpoolMark& until);
  void take_rows(std::string_view bytes, std::size_t most, std::vector<CallRow>& rows);
  void remove_segment();
  void close();

  const SpoolFolder& folder_;
  int file_ = -1;              // Descriptor of the present segment.
  std::uint64_t segment_ = 0;  // Its number, or that of the last one.
  std::uint64_t at_ = 0;       // Where the next record begins.
  std::uint64_t acked_ = 0;    // Up to where the database has it.
  std::uint64_t freed_ = 0;    // Bytes taken off the disk, not yet told.
  Damage damage_;
};

// Rows in all folders of a root which are not yet in the database, as the segments tell: for
// people; rows that go to the database at this moment may be counted.
[[nodiscard]] std::uint64_t spooled_rows(const std::string& root);

}  // namespace hg::ledger
