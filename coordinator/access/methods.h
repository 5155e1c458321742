// What each method of the coordinator asks of its caller, declared here and nowhere else. A method
// that is not in the table is refused, whoever calls it; a test compares it with the protos.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul::coordinator {

enum class Need {
  kNothing,  // Answers everybody who has a connection.
  kPool,     // A pool's certificate; the request's `pool` must be its name (caller.h).
  kViewer,   // And the others: a user of this Role at least (common/rpc/user_tokens.h).
  kSubmitter,
  kAdmin,
};

struct MethodRule {
  absl::string_view method;  // "/longhaul.v1.JobService/GetJob"; one that ends in '/': all of it.
  Need need = Need::kAdmin;
  bool audited = false;  // Changes something: goes to the audit log.
  bool counted = true;   // Against the caller's rate; bulk calls are bounded by memory.
};

absl::Span<const MethodRule> MethodRules();

// Null: the coordinator has no such method. Pure.
const MethodRule* FindMethod(absl::string_view method);

}  // namespace longhaul::coordinator
