// Proto messages as JSON for scripts: proto names, enum names, every number a JSON number (proto
// JSON writes 64-bit numbers as text), timestamps as RFC 3339 in UTC, durations as seconds.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace longhaul {

enum class JsonFields {
  // Fields that are set; a plain field of value zero counts as not set.
  kSet,
  // All, with null for an absent message, timestamp or optional number.
  kAll,
};

// `fields` holds for the messages inside too.
nlohmann::ordered_json MessageToJson(const google::protobuf::Message& message, JsonFields fields);

// All fields of each.
template <typename Message>
nlohmann::ordered_json MessagesToJson(const google::protobuf::RepeatedPtrField<Message>& messages) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Message& message : messages) json.push_back(MessageToJson(message, JsonFields::kAll));
  return json;
}

// The name of an enum's value; PREFIX_n of one that this program does not know: a newer server may
// have it.
template <typename Enum>
std::string EnumName(Enum value, absl::string_view prefix) {
  const auto* known =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(static_cast<int>(value));
  return known != nullptr ? known->name() : absl::StrCat(prefix, "_", static_cast<int>(value));
}

}  // namespace longhaul
