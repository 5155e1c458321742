// One line of text for each action of the cores: what transcripts compare and traces print.
#pragma once

#include <string>

#include "coordinator/core/action.h"
#include "worker/session/core/action.h"

namespace longhaul {

std::string ToText(const coordinator::Action& action);
std::string ToText(const session::Action& action);

}  // namespace longhaul
