#include "ledger/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text.h"

namespace hg::ledger {

namespace {

constexpr std::string_view kMagic = "HGSPOOL1";
constexpr std::uint64_t kHeaderBytes = 16;  // Magic; acknowledged offset.
constexpr std::size_t kFrameBytes = 12;     // Length, 4; checksum, 8; both low byte first.
constexpr std::size_t kMaxPayloadBytes = 16 * 1024;
constexpr std::string_view kSuffix = ".spool";

void put_number(std::uint64_t value, std::size_t bytes, char* to) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

std::uint64_t number_at(const char* from, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return value;
}

// The payload of the record that `bytes` begin with, if there is a whole and sound one.
std::optional<std::string_view> record_at(std::string_view bytes) {
  if (bytes.size() < kFrameBytes) return std::nullopt;
  const std::uint64_t length = number_at(bytes.data(), 4);
  if (length == 0 || length > kMaxPayloadBytes || length > bytes.size() - kFrameBytes) {
    return std::nullopt;
  }
  const std::string_view payload = bytes.substr(kFrameBytes, length);
  if (stable_hash(payload) != number_at(bytes.data() + 4, 8)) return std::nullopt;
  return payload;
}

// Where the next sound record begins, `from` or later; the end if there is none.
std::size_t next_record(std::string_view bytes, std::size_t from) {
  while (from < bytes.size() && !record_at(bytes.substr(from))) ++from;
  return from;
}

std::string segment_path(const std::string& folder, std::uint64_t number) {
  return fmt::format("{}/{:010}{}", folder, number, kSuffix);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return names;
  for (const dirent* entry = ::readdir(open); entry != nullptr; entry = ::readdir(open)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(open);
  std::ranges::sort(names);
  return names;
}

std::vector<std::uint64_t> segments_in(const std::string& folder) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names_in(folder)) {
    if (!name.ends_with(kSuffix)) continue;
    const auto number = parse_integer(name.substr(0, name.size() - kSuffix.size()));
    if (number && *number > 0) numbers.push_back(static_cast<std::uint64_t>(*number));
  }
  return numbers;
}

// A descriptor that is locked, or -1. `wait`: until whoever has it gives it back.
int lock_file(const std::string& path, int flags, bool wait) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (file < 0) return -1;
  int locked = -1;
  do {
    locked = ::flock(file, LOCK_EX | (wait ? 0 : LOCK_NB));
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return file;
  ::close(file);
  return -1;
}

// Held while folders are made, taken over or removed: never for long.
class RootLock {
 public:
  explicit RootLock(const std::string& root)
      : file_(lock_file(root + "/lock", O_CREAT, /*wait=*/true)) {}
  ~RootLock() {
    if (file_ >= 0) ::close(file_);
  }
  RootLock(const RootLock&) = delete;
  RootLock& operator=(const RootLock&) = delete;
  [[nodiscard]] bool held() const { return file_ >= 0; }

 private:
  int file_;
};

std::unexpected<Error> failed(const std::string& what) {
  return fail(Errc::unavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

// From `at` to the end of the file, or to `end` where that is nearer.
std::string read_from(int file, std::uint64_t at, std::uint64_t end) {
  std::string bytes;
  std::size_t filled = 0;
  while (at + filled < end) {
    constexpr std::size_t kChunk = 256 * 1024;
    const std::size_t want = std::min<std::uint64_t>(kChunk, end - at - filled);
    bytes.resize(filled + want);
    const ssize_t got = ::pread(file, bytes.data() + filled, want, static_cast<off_t>(at + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

std::uint64_t size_of(int file) {
  struct stat facts{};
  return ::fstat(file, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

// The acknowledged offset, or nothing if this is no segment.
std::optional<std::uint64_t> read_header(int file) {
  const std::string header = read_from(file, 0, kHeaderBytes);
  if (header.size() < kHeaderBytes || !header.starts_with(kMagic)) return std::nullopt;
  return std::max(number_at(header.data() + kMagic.size(), 8), kHeaderBytes);
}

}  // namespace

// ---- SpoolFolder ------------------------------------------------------------------------------

Result<SpoolFolder> SpoolFolder::create(const std::string& root, const std::string& owner) {
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return failed("making " + root);
  const RootLock root_lock(root);
  if (!root_lock.held()) return failed("locking " + root);
  std::string path = root + "/" + owner;
  if (::mkdir(path.c_str(), 0700) != 0) return failed("making " + path);
  const int lock = lock_file(path + "/lock", O_CREAT, /*wait=*/false);
  if (lock < 0) return failed("locking " + path);
  return SpoolFolder(root, std::move(path), lock);
}

std::vector<SpoolFolder> SpoolFolder::abandoned(const std::string& root) {
  std::vector<SpoolFolder> folders;
  const RootLock root_lock(root);
  if (!root_lock.held()) return folders;
  for (const std::string& name : names_in(root)) {
    if (name == "lock") continue;
    std::string path = root + "/" + name;
    // A folder without a lock is one whose owner was killed before it made that.
    const int lock = lock_file(path + "/lock", O_CREAT, /*wait=*/false);
    if (lock >= 0) folders.push_back(SpoolFolder(root, std::move(path), lock));
  }
  return folders;
}

SpoolFolder::~SpoolFolder() {
  if (lock_ >= 0) ::close(lock_);
}

SpoolFolder::SpoolFolder(SpoolFolder&& other) noexcept
    : root_(std::move(other.root_)),
      path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)) {}

SpoolFolder& SpoolFolder::operator=(SpoolFolder&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

std::vector<std::uint64_t> SpoolFolder::segments() const { return segments_in(path_); }

void SpoolFolder::remove_if_empty() {
  const RootLock root_lock(root_);
  if (lock_ < 0 || !segments().empty()) return;
  ::unlink((path_ + "/lock").c_str());
  ::rmdir(path_.c_str());
  ::close(std::exchange(lock_, -1));
}

// ---- SpoolWriter ------------------------------------------------------------------------------

SpoolWriter::SpoolWriter(const SpoolFolder& folder, const SpoolLimits& limits)
    : path_(folder.path()), limits_(limits) {}

SpoolWriter::~SpoolWriter() {
  if (file_ >= 0) ::close(file_);
}

Result<void> SpoolWriter::append(const CallRow& row) {
  record_.assign(kFrameBytes, '\0');
  append_payload(row, record_);
  const std::string_view payload = std::string_view(record_).substr(kFrameBytes);
  put_number(payload.size(), 4, record_.data());
  put_number(stable_hash(payload), 8, record_.data() + 4);
  {
    const std::scoped_lock lock(mutex_);
    if (held_bytes_ + record_.size() > limits_.total_bytes) {
      return fail(Errc::too_large, fmt::format("the spool {} is full: it holds {} MB", path_,
                                               held_bytes_ / 1'000'000));
    }
  }
  if (file_ >= 0 && length_ >= limits_.segment_bytes) end_segment();
  if (file_ < 0) {
    if (Result<void> begun = begin_segment(); !begun) return begun;
  }
  ssize_t written = -1;
  do {
    written = ::write(file_, record_.data(), record_.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(record_.size())) {
    const int why = written < 0 ? errno : ENOSPC;
    // What did get in must not stand before the next record.
    if (written > 0 && ::ftruncate(file_, static_cast<off_t>(length_)) != 0) end_segment();
    return fail(Errc::unavailable, fmt::format("writing to {}: {}", path_, std::strerror(why)));
  }
  length_ += record_.size();
  const std::scoped_lock lock(mutex_);
  held_bytes_ += record_.size();
  mark_ = SpoolMark{segment_, length_};
  return {};
}

Result<void> SpoolWriter::begin_segment() {
  const std::string path = segment_path(path_, segment_ + 1);
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (file_ < 0) return failed("making " + path);
  std::string header(kHeaderBytes, '\0');
  header.replace(0, kMagic.size(), kMagic);
  put_number(kHeaderBytes, 8, header.data() + kMagic.size());
  if (::write(file_, header.data(), header.size()) != static_cast<ssize_t>(header.size())) {
    const Error error = failed("writing to " + path).error();
    ::close(std::exchange(file_, -1));
    ::unlink(path.c_str());
    return std::unexpected(error);
  }
  ++segment_;
  length_ = kHeaderBytes;
  const std::scoped_lock lock(mutex_);
  held_bytes_ += kHeaderBytes;
  mark_ = SpoolMark{segment_, length_};
  return {};
}

void SpoolWriter::end_segment() {
  ::close(std::exchange(file_, -1));
  length_ = 0;
}

SpoolMark SpoolWriter::mark() const {
  const std::scoped_lock lock(mutex_);
  return mark_;
}

void SpoolWriter::freed(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  held_bytes_ -= std::min(bytes, held_bytes_);
}

// ---- SpoolReader ------------------------------------------------------------------------------

SpoolReader::SpoolReader(const SpoolFolder& folder) : folder_(folder) {}

SpoolReader::~SpoolReader() { close(); }

void SpoolReader::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

bool SpoolReader::open_next(const SpoolMark& until) {
  for (const std::uint64_t number : folder_.segments()) {
    if (number <= segment_) continue;
    if (number > until.segment) return false;
    segment_ = number;
    file_ = ::open(segment_path(folder_.path(), number).c_str(), O_RDWR | O_CLOEXEC);
    const std::optional<std::uint64_t> acked = file_ < 0 ? std::nullopt : read_header(file_);
    if (acked) {
      at_ = acked_ = *acked;
      return true;
    }
    // Cut before its header was whole: nothing can have been in it.
    remove_segment();
  }
  return false;
}

void SpoolReader::remove_segment() {
  if (file_ >= 0) freed_ += size_of(file_);
  close();
  ::unlink(segment_path(folder_.path(), segment_).c_str());
}

std::vector<CallRow> SpoolReader::next(std::size_t most, const SpoolMark& until) {
  std::vector<CallRow> rows;
  while (rows.empty()) {
    if (file_ < 0 && !open_next(until)) return rows;
    const bool over = segment_ < until.segment;
    const std::uint64_t end = over ? size_of(file_) : until.end;
    const std::string bytes = read_from(file_, at_, end);
    take_rows(bytes, most, rows);
    if (!rows.empty()) return rows;
    if (!over) return rows;
    remove_segment();
  }
  return rows;
}

void SpoolReader::take_rows(std::string_view bytes, std::size_t most, std::vector<CallRow>& rows) {
  while (!bytes.empty() && rows.size() < most) {
    const std::optional<std::string_view> payload = record_at(bytes);
    std::size_t step = payload ? kFrameBytes + payload->size() : next_record(bytes, 1);
    Result<CallRow> row = payload ? parse_payload(*payload) : fail(Errc::protocol, "damaged");
    if (row) {
      rows.push_back(std::move(*row));
    } else {
      ++damage_.places;
      damage_.bytes += step;
    }
    at_ += step;
    bytes.remove_prefix(step);
  }
}

std::uint64_t SpoolReader::acknowledge(const SpoolMark& until) {
  if (file_ >= 0 && at_ > acked_) {
    acked_ = at_;
    if (segment_ < until.segment && at_ >= size_of(file_)) {
      remove_segment();
    } else {
      char offset[8];
      put_number(acked_, sizeof(offset), offset);
      // A hint that saves a replay; without it the rows come twice, and count once.
      const ssize_t ignored = ::pwrite(file_, offset, sizeof(offset), kMagic.size());
      static_cast<void>(ignored);
    }
  }
  return std::exchange(freed_, 0);
}

void SpoolReader::rewind() { at_ = acked_; }

void SpoolReader::sync() {
  if (file_ >= 0) ::fdatasync(file_);
}

SpoolReader::Damage SpoolReader::damaged() { return std::exchange(damage_, Damage()); }

std::uint64_t spooled_rows(const std::string& root) {
  std::uint64_t rows = 0;
  for (const std::string& name : names_in(root)) {
    const std::string folder = root + "/" + name;
    for (const std::uint64_t number : segments_in(folder)) {
      const int file = ::open(segment_path(folder, number).c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) continue;
      if (const std::optional<std::uint64_t> at = read_header(file)) {
        const std::string bytes = read_from(file, *at, size_of(file));
        std::string_view rest = bytes;
        while (const auto payload = record_at(rest)) {
          ++rows;
          rest.remove_prefix(kFrameBytes + payload->size());
        }
      }
      ::close(file);
    }
  }
  return rows;
}

}  // namespace hg::ledger
