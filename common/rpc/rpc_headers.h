// base_headers.h and those of sources that know gRPC or protobuf.
#pragma once

#include "common/base/base_headers.h"
#include "google/protobuf/generated_message_reflection.h"
#include "google/protobuf/map.h"
#include "google/protobuf/message.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/grpcpp.h"
