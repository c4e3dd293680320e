// file_limit.h: how many files and sockets this process may have open.
//
// Shells start programs with a low soft limit (1,024, for programs that use select); a daemon that
// holds thousands of calls needs more, and may take it up to the hard limit. Any thread.
#pragma once
#include <cstdint>

namespace hg::cli {

struct FileLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};
[[nodiscard]] FileLimit file_limit();

// Sets the soft limit to the hard one. What fails is left as it was.
void raise_file_limit();

}  // namespace hg::cli
