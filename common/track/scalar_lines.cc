#include "common/track/scalar_lines.h"

#include <cmath>
#include <memory>

#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRewind[] = "rewind", kSession[] = "session";
constexpr int64_t kLinesAtOnce = 1 << 20;
// Longer lines are skipped. A spec is shorter.
constexpr size_t kLineBytesMax = 1 << 20;

Json LineAt(int64_t step, absl::Time time) {
  return {{"step", step}, {"time", static_cast<double>(absl::ToUnixMillis(time)) / 1e3}};
}

std::string TextOf(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<ScalarLines> ScalarLines::Open(FileSystem* fs, const std::string& path) {
  ScalarLines lines(fs, path);
  absl::StatusOr<std::unique_ptr<File>> file = fs->Open(path);
  if (absl::IsNotFound(file.status())) {
    LH_RETURN_IF_ERROR(fs->Create(path).status());
    return lines;
  }
  LH_RETURN_IF_ERROR(file.status());
  LH_RETURN_IF_ERROR(lines.Scan(**file));
  return lines;
}

absl::Status ScalarLines::Scan(const File& file) {
  std::string buffer(kLinesAtOnce, '\0'), line;
  int64_t at = 0, whole = 0;
  bool too_long = false;
  for (;;) {
    LH_ASSIGN_OR_RETURN(const int64_t read, file.ReadAt(at, absl::MakeSpan(buffer)));
    if (read == 0) break;
    absl::string_view rest = absl::string_view(buffer).substr(0, read);
    for (size_t end; (end = rest.find('\n')) != absl::string_view::npos;) {
      line.append(rest.data(), end);
      if (!too_long && line.size() <= kLineBytesMax) Heard(line);
      line.clear();
      too_long = false;
      rest.remove_prefix(end + 1);
      whole = at + read - static_cast<int64_t>(rest.size());
    }
    line.append(rest.data(), rest.size());
    if (line.size() > kLineBytesMax) {
      line.clear();
      too_long = true;
    }
    at += read;
  }
  file_.SetWhole(whole);
  return absl::OkStatus();
}

// Lines of another form are ignored.
void ScalarLines::Heard(absl::string_view line) {
  // A line has at most a few levels. The parser stops at deeper nesting.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 2; };
  const Json parsed = Json::parse(line.begin(), line.end(), shallow, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return;
  const auto step = parsed.find("step");
  if (step == parsed.end() || !step->is_number_integer()) return;
  const auto value = step->get<int64_t>();
  for (const auto& [name, item] : parsed.items()) {
    if (name == kRewind) {
      last_.Rewind(value);
    } else if (name == kSession) {
      session_ = item.is_string() ? item.get<std::string>() : "";
    } else if (name != "step" && name != "time") {
      last_.Took(name, value);
    }
  }
}

absl::Status ScalarLines::AddScalars(int64_t step, absl::Time time,
                                     absl::Span<const Scalar> scalars) {
  Json line = LineAt(step, time);
  const size_t head = line.size();
  for (const Scalar& scalar : scalars) {
    if (!last_.Takes(scalar.tag, step)) continue;
    line[scalar.tag] = std::isfinite(scalar.value) ? Json(scalar.value) : Json(nullptr);
  }
  if (line.size() == head) return absl::OkStatus();
  LH_RETURN_IF_ERROR(file_.Append(TextOf(line)));
  for (const Scalar& scalar : scalars)
    if (last_.Takes(scalar.tag, step)) last_.Took(scalar.tag, step);
  return absl::OkStatus();
}

absl::Status ScalarLines::AddText(int64_t step, absl::Time time, const std::string& tag,
                                  absl::string_view text) {
  if (!last_.Takes(tag, step)) return absl::OkStatus();
  Json line = LineAt(step, time);
  line[tag] = std::string(text.substr(0, kLineBytesMax / 8));
  LH_RETURN_IF_ERROR(file_.Append(TextOf(line)));
  last_.Took(tag, step);
  return absl::OkStatus();
}

absl::Status ScalarLines::BeginSession(const std::string& session, int64_t step, absl::Time time) {
  Json line = LineAt(step, time);
  line[kSession] = session;
  if (last_.last() >= step) line[kRewind] = true;
  LH_RETURN_IF_ERROR(file_.Append(TextOf(line)));
  last_.Rewind(step);
  session_ = session;
  return absl::OkStatus();
}

}  // namespace longhaul
