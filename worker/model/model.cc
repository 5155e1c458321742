#include "worker/model/model.h"

#include "worker/model/fused_pass.h"

namespace longhaul {

std::unique_ptr<FusedPass> Model::MakeFusedPass(at::ScalarType) const { return nullptr; }

}  // namespace longhaul
