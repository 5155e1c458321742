#include "coordinator/cli/event_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/wire/message_json.h"
#include "common/wire/proto_values.h"
#include "coordinator/cli/outcome.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

// In UTC.
std::string TimeOf(const v1::JobEvent& event) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", TimeFromProto(event.at()), absl::UTCTimeZone());
}

std::string KindOf(const v1::JobEvent& event) { return EnumName(event.kind(), "KIND"); }

std::string SeverityOf(const v1::JobEvent& event) { return EnumName(event.severity(), "SEVERITY"); }

std::string WordsOf(const v1::JobEvent& event) {
  std::string words = event.message();
  if (!event.code().empty()) absl::StrAppend(&words, " (", event.code(), ")");
  if (!event.hint().empty()) absl::StrAppend(&words, "; ", event.hint());
  return words;
}

}  // namespace

Json EventsJson(const v1::ListEventsResponse& events) { return MessagesToJson(events.events()); }

std::string EventJsonLine(const v1::JobEvent& event) {
  return JsonLine(Outcome(MessageToJson(event, JsonFields::kAll), "")) + "\n";
}

std::string EventsTable(const v1::ListEventsResponse& events, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::JobEvent& event : events.events()) {
    rows.push_back({TimeOf(event), SeverityOf(event), KindOf(event),
                    event.pool().empty() ? "-" : event.pool(), WordsOf(event)});
  }
  return FittedTable(
      {{"TIME (UTC)"}, {"SEVERITY"}, {"EVENT"}, {"POOL", CellFit::kName}, {"WHAT", CellFit::kText}},
      rows, width);
}

std::string EventLine(const v1::JobEvent& event) {
  return absl::StrFormat("%s  %-8s  %-19s  %s%s\n", TimeOf(event), SeverityOf(event), KindOf(event),
                         event.pool().empty() ? "" : absl::StrCat(Printable(event.pool()), ": "),
                         Printable(WordsOf(event)));
}

}  // namespace longhaul::cli
