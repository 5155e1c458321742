// protobuf writes a line for each message that is not what it should be; here nearly all are.
#pragma once

#include "google/protobuf/stubs/logging.h"

namespace longhaul::fuzz {

inline const bool kProtobufIsQuiet = [] {
  google::protobuf::SetLogHandler(nullptr);
  return true;
}();

}  // namespace longhaul::fuzz
