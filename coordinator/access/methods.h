// The access rules of the coordinator's methods, declared here and nowhere else. A method that is
// not in the table is refused for every caller. A test compares the table with the protos.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul::coordinator {

enum class Need {
  // Everybody with a connection may call it.
  kNothing,
  // A pool's certificate; the request's `pool` must be its name (caller.h).
  kPool,
  // This and the following: a user with at least this Role (common/rpc/user_tokens.h).
  kViewer,
  kSubmitter,
  kAdmin,
};

struct MethodRule {
  // "/longhaul.v1.JobService/GetJob"; with '/' at its end, a service.
  absl::string_view method;
  Need need = Need::kAdmin;
  // It changes something, so its calls go to the audit log.
  bool audited = false;
  // Counts for the caller's rate. Bulk calls do not: memory bounds them.
  bool counted = true;
  // Its handler is registered with serialized messages (WithRawCallbackMethod). Only for audited
  // methods, whose requests the audit log reads. tests/tidy compares it with the registrations.
  bool raw = false;
};

absl::Span<const MethodRule> MethodRules();

// Null: the coordinator has no such method. Pure.
const MethodRule* FindMethod(absl::string_view method);

}  // namespace longhaul::coordinator
