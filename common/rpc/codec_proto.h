// Converts the protos that name a codec to the options that make it. Pure.
#pragma once

#include "common/codec/codec.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// `spec` has every default filled in. MakeCodec refuses a number that is not a codec.
CodecOptions CodecOptionsOf(const v1::CodecSpec& spec);

}  // namespace longhaul
