#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace hg::detail {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "headgate: internal error: %s does not hold (%s:%d)\n", expression, file,
               line);
  std::abort();
}

}  // namespace hg::detail
