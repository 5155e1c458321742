#include "coordinator/cli/outcome.h"

#include "coordinator/cli/yaml_writer.h"

namespace longhaul::cli {
namespace {

// Of the envelope; it changes when a key is removed or changes its meaning.
constexpr int kSchemaVersion = 1;

Json Envelope(const Outcome& outcome) {
  Json json = {{"schema_version", kSchemaVersion}, {"status", outcome.error ? "error" : "ok"}};
  if (outcome.data) json["data"] = *outcome.data;
  if (outcome.error) json["error"] = ToJson(*outcome.error);
  return json;
}

}  // namespace

std::string JsonLine(const Outcome& outcome) {
  return Envelope(outcome).dump(-1, ' ', false, Json::error_handler_t::replace);
}

ExitCode Write(const Outcome& outcome, OutputFormat format, const Environment& environment) {
  if (outcome.silent) return ExitCode::kOk;
  switch (format) {
    case OutputFormat::kTable:
      environment.out << outcome.table;
      break;
    case OutputFormat::kJson:
      environment.out << Envelope(outcome).dump(2, ' ', false, Json::error_handler_t::replace)
                      << "\n";
      break;
    case OutputFormat::kJsonl:
      environment.out << JsonLine(outcome) << "\n";
      break;
    case OutputFormat::kYaml:
      environment.out << WriteYaml(Envelope(outcome));
      break;
  }
  environment.out.flush();
  if (!outcome.error) return ExitCode::kOk;
  environment.err << ToText(*outcome.error, environment.coloured()) << std::flush;
  return outcome.error->exit;
}

}  // namespace longhaul::cli
