// Proto messages as JSON for scripts: proto names, enum names, every number a JSON number (proto
// JSON writes 64-bit numbers as text), timestamps as RFC 3339 in UTC, durations as seconds.
#pragma once

#include "common/config/yaml_json.h"
#include "google/protobuf/message.h"

namespace longhaul::cli {

enum class JsonFields {
  // Fields that are set; a plain field of value zero counts as not set.
  kSet,
  // All, with null for an absent message, timestamp or optional number.
  kAll,
};

// `fields` holds for the messages inside too.
Json MessageToJson(const google::protobuf::Message& message, JsonFields fields);

}  // namespace longhaul::cli
