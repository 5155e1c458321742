// Which inner optimizer, with its settings. Pure value.
#pragma once

#include <variant>

#include "worker/optim/adamw_options.h"
#include "worker/optim/muon_options.h"
#include "worker/optim/onebit_adam_options.h"

namespace longhaul {

// MuonOptions: Muon for matrices, its AdamW for everything else.
using OptimizerOptions = std::variant<AdamWOptions, MuonOptions, OneBitAdamOptions>;

}  // namespace longhaul
