#include "client/cli/json_format.h"

#include <google/protobuf/descriptor.h>

#include <string>

#include "client/cli/option_values.h"

namespace preprocd::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

ordered_json EnumToJson(const google::protobuf::EnumValueDescriptor& value) {
  if (value.number() == 0) return nullptr;
  return EnumText(value);
}

// One value of `field`; `index` is -1 for a singular field.
ordered_json ValueToJson(const Message& message, const FieldDescriptor& field,
                         int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r.GetInt32(message, &field)
                 : r.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r.GetInt64(message, &field)
                 : r.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r.GetUInt32(message, &field)
                 : r.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r.GetUInt64(message, &field)
                 : r.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? r.GetDouble(message, &field)
                 : r.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? r.GetFloat(message, &field)
                 : r.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r.GetBool(message, &field)
                 : r.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumToJson(one ? *r.GetEnum(message, &field)
                            : *r.GetRepeatedEnum(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? r.GetString(message, &field)
                 : r.GetRepeatedString(message, &field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageToJson(one ? r.GetMessage(message, &field)
                               : r.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

}  // namespace

ordered_json MessageToJson(const Message& message) {
  ordered_json object = ordered_json::object();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.type() == FieldDescriptor::TYPE_BYTES) continue;
    if (field.is_repeated()) {
      ordered_json list = ordered_json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        list.push_back(ValueToJson(message, field, k));
      }
      object[field.name()] = std::move(list);
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      object[field.name()] = ValueToJson(message, field, -1);
    }
  }
  return object;
}

}  // namespace preprocd::cli
