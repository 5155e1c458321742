// Converts torch's exceptions to absl::Status at the boundary of torch: RESOURCE_EXHAUSTED if there
// is not enough memory, otherwise INTERNAL.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "c10/util/Exception.h"

namespace longhaul {

// Calls `body`, which returns absl::Status or absl::StatusOr. `doing` says what it does, for
// messages.
template <typename Body>
auto CatchTorch(std::string_view doing, Body&& body) -> decltype(body()) {
  const auto message = [&](std::string_view what) {
    return absl::StrCat(std::string(doing), ": ", std::string(what));
  };
  try {
    return std::forward<Body>(body)();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(message(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(message("out of memory"));
  } catch (const c10::Error& error) {
    const std::string text = message(error.what_without_backtrace());
    // The CPU's allocator throws no special type.
    if (absl::StrContains(text, "can't allocate memory")) return absl::ResourceExhaustedError(text);
    return absl::InternalError(text);
  } catch (const std::exception& error) {
    return absl::InternalError(message(error.what()));
  }
}

}  // namespace longhaul
