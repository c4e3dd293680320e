// main.cc: the program. Everything is in run_headgate.
#include <csignal>
#include <vector>

#include "cli/commands.h"

int main(int count, char** values) {
  // A client that goes away is an error of a write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
  return hg::cli::run_headgate(arguments);
}
