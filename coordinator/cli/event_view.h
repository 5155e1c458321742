// Events, for scripts and for people.
#pragma once

#include <string>

#include "common/config/yaml_json.h"
#include "coordinator/cli/table.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

Json EventsJson(const v1::ListEventsResponse& events);
std::string EventsTable(const v1::ListEventsResponse& events, TableWidth width = {});
// One line, with its end: "2026-01-31 12:00:00  WARNING  POOL_LOST           east: is lost: ...".
std::string EventLine(const v1::JobEvent& event);
// The envelope of one event, with its end.
std::string EventJsonLine(const v1::JobEvent& event);

}  // namespace longhaul::cli
