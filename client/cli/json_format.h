// Messages as JSON for scripts: numbers as numbers, enumerations as the
// command line writes them, bytes left out.
// Thread-safety: safe (no state).
#ifndef CLIENT_CLI_JSON_FORMAT_H_
#define CLIENT_CLI_JSON_FORMAT_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace preprocd::cli {

// Every scalar and repeated field, set or not; submessages and optional
// fields when they are set. Enumerations that are unspecified are null.
nlohmann::ordered_json MessageToJson(const google::protobuf::Message& message);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_JSON_FORMAT_H_
