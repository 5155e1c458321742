// What an error says about itself beside code and message: who is at fault, and which field of the
// job spec it is about. The place where the error arises sets it, and no one reads messages for it.
// Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace longhaul {

inline constexpr char kPeerFaultMark[] = "longhaul.status/peer_fault";
inline constexpr char kTokenizerMark[] = "longhaul.status/tokenizer";
inline constexpr char kFieldMark[] = "longhaul.status/field";

// Another rank of the pool is gone or makes no progress, so this rank is not at fault. `status` is
// not OK.
inline absl::Status MarkPeerFault(absl::Status status) {
  status.SetPayload(kPeerFaultMark, absl::Cord());
  return status;
}
inline bool IsPeerFault(const absl::Status& status) {
  return status.GetPayload(kPeerFaultMark).has_value();
}

// The tokenizer of a data source is at fault, not its text. `status` is not OK.
inline absl::Status MarkTokenizer(absl::Status status) {
  status.SetPayload(kTokenizerMark, absl::Cord());
  return status;
}
inline bool IsOfTokenizer(const absl::Status& status) {
  return status.GetPayload(kTokenizerMark).has_value();
}

// The same code and marks with another message.
inline absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view mark, const absl::Cord& value) { result.SetPayload(mark, value); });
  return result;
}

// The same code and marks, with "context: " before the message. `status` is not OK.
inline absl::Status WithContext(absl::string_view context, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(context, ": ", status.message()));
}

// The error is about a field of the job spec, whose name is put before the message. `status` is not
// OK.
inline absl::Status AboutField(absl::string_view field, const absl::Status& status) {
  absl::Status result = WithContext(field, status);
  result.SetPayload(kFieldMark, absl::Cord(field));
  return result;
}
// Empty: it is about none.
inline std::string FieldOf(const absl::Status& status) {
  const absl::optional<absl::Cord> field = status.GetPayload(kFieldMark);
  return field.has_value() ? std::string(*field) : "";
}

}  // namespace longhaul
