// The inner optimizer and its settings. Pure value.
#pragma once

#include <variant>

#include "worker/optim/adamw_options.h"
#include "worker/optim/muon_options.h"
#include "worker/optim/onebit_adam_options.h"

namespace longhaul {

// With MuonOptions, hidden matrices are updated by Muon, all other parameters by its AdamW.
using OptimizerOptions = std::variant<AdamWOptions, MuonOptions, OneBitAdamOptions>;

}  // namespace longhaul
