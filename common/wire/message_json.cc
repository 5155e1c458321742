#include "common/wire/message_json.h"

#include <optional>

#include "absl/time/time.h"
#include "common/wire/proto_values.h"
#include "google/protobuf/descriptor.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Json MessageValue(const Message& message, JsonFields fields) {
  using google::protobuf::DynamicCastToGenerated;
  if (const auto* duration = DynamicCastToGenerated<google::protobuf::Duration>(&message))
    return absl::ToDoubleSeconds(DurationFromProto(*duration));
  if (const auto* time = DynamicCastToGenerated<google::protobuf::Timestamp>(&message))
    return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", TimeFromProto(*time), absl::UTCTimeZone());
  return MessageToJson(message, fields);
}

Json EnumValue(const FieldDescriptor& field, int number) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? Json(number) : Json(value->name());
}

// The field, or its element `index` if it is a list.
Json Value(const Message& message, const FieldDescriptor* field, std::optional<int> index,
           JsonFields fields) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) {
    return index.has_value() ? (reflection.*repeated)(message, field, *index)
                             : (reflection.*single)(message, field);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumValue(*field, get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageValue(index.has_value() ? reflection.GetRepeatedMessage(message, field, *index)
                                            : reflection.GetMessage(message, field),
                          fields);
  }
  return nullptr;
}

}  // namespace

nlohmann::ordered_json MessageToJson(const Message& message, JsonFields fields) {
  const auto& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->is_repeated()) {
      const int size = reflection.FieldSize(message, field);
      if (size == 0 && fields == JsonFields::kSet) continue;
      Json& array = json[field->name()] = Json::array();
      for (int j = 0; j < size; ++j) array.push_back(Value(message, field, j, fields));
    } else if (reflection.HasField(message, field)) {
      json[field->name()] = Value(message, field, std::nullopt, fields);
    } else if (fields == JsonFields::kAll) {
      json[field->name()] =
          field->has_presence() ? Json(nullptr) : Value(message, field, std::nullopt, fields);
    }
  }
  return json;
}

}  // namespace longhaul
