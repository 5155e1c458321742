#include "coordinator/cli/message_json.h"

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

namespace longhaul::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Duration SecondsAndNanos(const Message& message) {
  const auto& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  return absl::Seconds(reflection.GetInt64(message, type.FindFieldByName("seconds"))) +
         absl::Nanoseconds(reflection.GetInt32(message, type.FindFieldByName("nanos")));
}

Json MessageValue(const Message& message, JsonFields fields) {
  const std::string& name = message.GetDescriptor()->full_name();
  if (name == "google.protobuf.Duration") return absl::ToDoubleSeconds(SecondsAndNanos(message));
  if (name == "google.protobuf.Timestamp") {
    return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::UnixEpoch() + SecondsAndNanos(message),
                            absl::UTCTimeZone());
  }
  return MessageToJson(message, fields);
}

Json EnumValue(const FieldDescriptor& field, int number) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? Json(number) : Json(value->name());
}

Json SingleValue(const Message& message, const FieldDescriptor* field, JsonFields fields) {
  const Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumValue(*field, reflection.GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageValue(reflection.GetMessage(message, field), fields);
  }
  return nullptr;
}

Json RepeatedValue(const Message& message, const FieldDescriptor* field, int i, JsonFields fields) {
  const Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetRepeatedInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetRepeatedInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetRepeatedUInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetRepeatedUInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetRepeatedDouble(message, field, i);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetRepeatedFloat(message, field, i);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetRepeatedBool(message, field, i);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetRepeatedString(message, field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumValue(*field, reflection.GetRepeatedEnumValue(message, field, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageValue(reflection.GetRepeatedMessage(message, field, i), fields);
  }
  return nullptr;
}

}  // namespace

Json MessageToJson(const Message& message, JsonFields fields) {
  const auto& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  Json json = Json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->is_repeated()) {
      const int size = reflection.FieldSize(message, field);
      if (size == 0 && fields == JsonFields::kSet) continue;
      Json& array = json[field->name()] = Json::array();
      for (int j = 0; j < size; ++j) array.push_back(RepeatedValue(message, field, j, fields));
    } else if (reflection.HasField(message, field)) {
      json[field->name()] = SingleValue(message, field, fields);
    } else if (fields == JsonFields::kAll) {
      json[field->name()] =
          field->has_presence() ? Json(nullptr) : SingleValue(message, field, fields);
    }
  }
  return json;
}

}  // namespace longhaul::cli
