// daemon_client.h: asks the daemon of this user, over its unix socket.
//
// Blocking: each question runs an event loop of its own until the answer is there. One thread.
#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace hg::cli {

// A descriptor that closes itself.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

 private:
  int descriptor_;
};

class DaemonClient {
 public:
  // Each answer is waited for at most `within`.
  explicit DaemonClient(std::string socket_path, Micros within = 10s)
      : socket_path_(std::move(socket_path)), within_(within) {}

  // Errc::unavailable: no daemon; Errc::invalid with the daemon's own words when it refuses;
  // Errc::protocol: what answers is no daemon of ours.
  [[nodiscard]] Result<boost::json::value> get(std::string_view target) const;
  [[nodiscard]] Result<boost::json::value> post(std::string_view target,
                                                const boost::json::value& body) const;

  // Tells the daemon that a program of this run is alive, for as long as the answer is kept: it
  // does not end for idleness meanwhile.
  [[nodiscard]] Result<OpenFile> attach(std::string_view run) const;

 private:
  [[nodiscard]] Result<boost::json::value> ask(std::string_view method, std::string_view target,
                                               const std::string& body) const;
  std::string socket_path_;
  Micros within_;
};

}  // namespace hg::cli
