#include "gate/types.h"

namespace hg::gate {

const char* to_string(Axis axis) {
  switch (axis) {
    case Axis::none: return "none";
    case Axis::paused: return "paused";
    case Axis::tok: return "tok";
    case Axis::req: return "req";
    case Axis::inflight: return "inflight";
    case Axis::out: return "out";
  }
  return "none";
}

}  // namespace hg::gate
