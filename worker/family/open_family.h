// How a trainer gets a family of models without knowing which one it is. Without torch, so that
// those who choose the family may see protobuf.
#pragma once

#include <functional>

#include "absl/status/statusor.h"

namespace longhaul {

struct Family;
struct FamilyContext;

// Opens the data, and makes the model. Blocks, for long if tokens must be made. Errors: those of
// the family's own data and model.
using OpenFamily = std::function<absl::StatusOr<Family>(const FamilyContext&)>;

}  // namespace longhaul
