// main.cc: the program. Everything is in run_headgate.
#include <malloc.h>

#include <csignal>
#include <vector>

#include "cli/commands.h"

int main(int count, char** values) {
  // A client that goes away is an error of a write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  // Bodies come and go by the hundred kilobytes; the kernel takes longer to give their pages anew
  // than we take to read them.
  ::mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
  // Each call takes some blocks above a kilobyte, and malloc joins all freed fast blocks each time.
  ::mallopt(M_MXFAST, 0);
  const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
  return hg::cli::run_headgate(arguments);
}
