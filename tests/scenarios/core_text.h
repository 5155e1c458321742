// One line of text for each decision and action of the cores: what transcripts compare and traces
// print.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/decision.h"
#include "worker/session/core/action.h"

namespace longhaul {

std::string ToText(const coordinator::Record& record);
std::string ToText(const coordinator::Answer& answer);
std::string ToText(const coordinator::Notice& notice);
std::string ToText(const coordinator::Work& work);
// A line for each record, the answer, each notice and each work, in their order.
std::vector<std::string> ToLines(const coordinator::Decision& decision);
std::string ToText(const session::Action& action);

}  // namespace longhaul
