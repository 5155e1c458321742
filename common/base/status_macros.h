// Early return on error. `LH_RETURN_IF_ERROR(expr)` returns if `expr` is a non-OK absl::Status.
// `LH_ASSIGN_OR_RETURN(lhs, expr)` returns the status of `expr` if it is a non-OK absl::StatusOr;
// otherwise it assigns its value to `lhs`.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LH_CONCAT_INNER_(a, b) a##b
#define LH_CONCAT_(a, b) LH_CONCAT_INNER_(a, b)

#define LH_RETURN_IF_ERROR(expr)                                               \
  do {                                                                         \
    if (absl::Status lh_status_ = (expr); !lh_status_.ok()) return lh_status_; \
  } while (false)

#define LH_ASSIGN_OR_RETURN(lhs, expr) \
  LH_ASSIGN_OR_RETURN_IMPL_(LH_CONCAT_(lh_statusor_, __LINE__), lhs, expr)
#define LH_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr) \
  auto var = (expr);                              \
  if (!var.ok()) return std::move(var).status();  \
  lhs = std::move(var).value()
