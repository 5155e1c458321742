#include "common/base/random.h"

namespace longhaul {

uint64_t Random::Next() {
  const auto words = Philox(key_, stream_, counter_++);
  return (uint64_t{words[1]} << 32) | words[0];
}

}  // namespace longhaul
