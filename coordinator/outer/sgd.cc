#include "coordinator/outer/sgd.h"

namespace longhaul {

void Sgd::Step(absl::Span<float> gradient, absl::Span<float> momentum) const {
  for (float& d : gradient) d *= lr_;
}

}  // namespace longhaul
