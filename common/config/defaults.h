// The defaults of a JobSpec that job.proto documents. No other place knows them.
#pragma once

#include "absl/strings/string_view.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// The default of a field, as text.
struct FieldDefault {
  absl::string_view path, value;
};

// Fills in each field that was left out and has a default. Never changes which member of a oneof is
// set, except that AdamW and balanced fragments are chosen if none is. Accepts any spec, also an
// impossible one. A second call changes nothing.
void FillDefaults(v1::JobSpec& spec);

// The default of the field at `path` ("sync.h"), as text: its value, or where it comes from. Empty
// if there is none, or if zero is a value of the field.
absl::string_view DefaultOf(absl::string_view path);

}  // namespace longhaul
