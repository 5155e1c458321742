#include "common/base/random.h"

namespace longhaul {

uint64_t Random::Next() { return Philox64(key_, stream_, counter_++); }

}  // namespace longhaul
