#include "worker/state/state_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/safetensors/safetensors_writer.h"

namespace longhaul {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr char kFormat[] = "longhaul-inner-state";
constexpr char kFormatKey[] = "format", kVersionKey[] = "version", kHeaderKey[] = "header",
               kPhasePrefix[] = "phase/", kDigestPrefix[] = "xxh3/";

std::string TensorName(const InnerStateSlot& slot) {
  return absl::StrCat(NameOf(slot.kind), "/", slot.unit, "/", slot.first);
}

std::optional<InnerStateSlot> SlotOf(const StoredTensor& tensor) {
  const std::vector<absl::string_view> words = absl::StrSplit(tensor.name, '/');
  if (words.size() != 3 || tensor.type != ElementType::kF32 || tensor.shape.size() != 1)
    return std::nullopt;
  const std::optional<InnerStateKind> kind = InnerStateKindOf(words[0]);
  InnerStateSlot slot{.count = tensor.elements};
  if (!kind.has_value() || !absl::SimpleAtoi(words[1], &slot.unit) ||
      !absl::SimpleAtoi(words[2], &slot.first) || slot.unit < 0 || slot.first < 0 ||
      slot.first > std::numeric_limits<int64_t>::max() - slot.count)
    return std::nullopt;
  slot.kind = *kind;
  // One name for one slot.
  if (TensorName(slot) != tensor.name) return std::nullopt;
  return slot;
}

std::string HeaderDigest(const SafetensorsHeader& header) {
  Digester digester;
  const auto add = [&](absl::string_view text) {
    digester.Update(absl::StrCat(text.size(), ":"));
    digester.Update(text);
  };
  for (const auto& [key, value] : header.metadata) {
    if (key == kHeaderKey) continue;
    add(key);
    add(value);
  }
  for (const StoredTensor& tensor : header.tensors)
    add(absl::StrCat(tensor.name, " ", tensor.elements));
  return digester.Value().Hex();
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// Takes values out of metadata; remembers whether all were there.
class Fields {
 public:
  explicit Fields(const std::map<std::string, std::string>& metadata) : metadata_(metadata) {}

  std::string Text(const char* key) {
    const auto found = metadata_.find(key);
    ok_ &= found != metadata_.end();
    return found == metadata_.end() ? "" : found->second;
  }
  template <typename Number>
  Number Count(const char* key) {
    Number number = 0;
    ok_ &= absl::SimpleAtoi(Text(key), &number) && number >= 0;
    return number;
  }
  bool ok() const { return ok_; }

 private:
  const std::map<std::string, std::string>& metadata_;
  bool ok_ = true;
};

std::optional<StateTag> TagOf(const std::map<std::string, std::string>& metadata) {
  Fields fields(metadata);
  StateTag tag{.owner = {.job = fields.Text("job"),
                         .pool = fields.Text("pool"),
                         .spec = fields.Text("spec"),
                         .layout = fields.Text("layout")},
               .life = fields.Count<uint64_t>("life"),
               .step = fields.Count<int64_t>("step"),
               .rank = fields.Count<int>("rank"),
               .ranks = fields.Count<int>("ranks")};
  bool ok = fields.ok() && tag.rank < tag.ranks;
  for (const auto& [key, text] : metadata) {
    absl::string_view name = key;
    double value = 0;
    if (!absl::ConsumePrefix(&name, kPhasePrefix)) continue;
    ok &= absl::SimpleAtod(text, &value) && std::isfinite(value) && value >= 0 &&
          value < static_cast<double>(int64_t{1} << 53);
    tag.phase.push_back({std::string(name), value});
  }
  if (!ok) return std::nullopt;
  return tag;
}

}  // namespace

void SignStateHeader(SafetensorsHeader& header, absl::FunctionRef<Digest128(size_t)> digest) {
  for (size_t i = 0; i < header.tensors.size(); ++i)
    header.metadata[absl::StrCat(kDigestPrefix, header.tensors[i].name)] = digest(i).Hex();
  header.metadata[kHeaderKey] = HeaderDigest(header);
}

absl::Status WriteStateFile(FileSystem* fs, const std::string& path, const StateTag& tag,
                            absl::Span<const InnerStatePart> parts) {
  SafetensorsHeader header;
  header.metadata = {{kFormatKey, kFormat},
                     {kVersionKey, absl::StrCat(kStateVersion)},
                     {"job", tag.owner.job},
                     {"pool", tag.owner.pool},
                     {"spec", tag.owner.spec},
                     {"layout", tag.owner.layout},
                     {"life", absl::StrCat(tag.life)},
                     {"step", absl::StrCat(tag.step)},
                     {"rank", absl::StrCat(tag.rank)},
                     {"ranks", absl::StrCat(tag.ranks)}};
  for (const NamedValue& value : tag.phase)
    header.metadata[absl::StrCat(kPhasePrefix, value.name)] = absl::StrFormat("%.17g", value.value);
  for (const InnerStatePart& part : parts) {
    header.tensors.push_back({.name = TensorName(part.slot),
                              .type = ElementType::kF32,
                              .shape = {part.slot.count},
                              .elements = part.slot.count});
  }
  SignStateHeader(header, [&](size_t index) { return DigestOf(BytesOf(parts[index].values)); });
  LH_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(fs, path, header));
  for (const InnerStatePart& part : parts) LH_RETURN_IF_ERROR(writer.Append(BytesOf(part.values)));
  return writer.Finish();
}

absl::StatusOr<StateFile> StateFile::Open(const std::string& path) {
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (absl::IsNotFound(file.status())) return file.status();
  if (!file.ok()) return absl::DataLossError(file.status().message());
  const SafetensorsHeader& header = file->header();
  const auto& metadata = header.metadata;
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  int version = 0;
  if (text(kFormatKey) != kFormat || !absl::SimpleAtoi(text(kVersionKey), &version) || version < 1)
    return Damaged(path, "is not a file of inner state");
  if (version > kStateVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is of version ", version,
                     ", which a later longhaul-worker writes; this one knows ", kStateVersion));
  }
  if (text(kHeaderKey) != HeaderDigest(header)) return Damaged(path, "its header is damaged");
  std::optional<StateTag> tag = TagOf(metadata);
  if (!tag.has_value()) return Damaged(path, "its header lacks a field");
  std::vector<InnerStateSlot> slots;
  for (const StoredTensor& tensor : header.tensors) {
    const std::optional<InnerStateSlot> slot = SlotOf(tensor);
    if (!slot.has_value() || text(absl::StrCat(kDigestPrefix, tensor.name).c_str()).empty())
      return Damaged(path, absl::StrCat("holds ", tensor.name, ", which is not inner state"));
    slots.push_back(*slot);
  }
  return StateFile(*std::move(file), *std::move(tag), std::move(slots));
}

absl::Status StateFile::Verify(size_t index) const {
  const StoredTensor& tensor = file_.header().tensors[index];
  Digester digester;
  std::vector<uint8_t> piece(std::min(kPieceBytes, tensor.bytes()));
  for (int64_t at = 0; at < tensor.bytes(); at += kPieceBytes) {
    const auto part = absl::MakeSpan(piece).first(std::min(kPieceBytes, tensor.bytes() - at));
    LH_RETURN_IF_ERROR(file_.ReadBytes(tensor, at, part));
    digester.Update({reinterpret_cast<const char*>(part.data()), part.size()});
  }
  const std::string expected = file_.header().metadata.at(absl::StrCat(kDigestPrefix, tensor.name));
  if (expected == digester.Value().Hex()) return absl::OkStatus();
  return Damaged(file_.path(), absl::StrCat(tensor.name, " is damaged"));
}

absl::Status StateFile::Read(size_t index, int64_t offset, absl::Span<float> out) const {
  return file_.Read(file_.header().tensors[index], offset, out);
}

}  // namespace longhaul
