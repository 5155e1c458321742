#include "common/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

constexpr char kMetadata[] = "__metadata__";

// A tensor while it is being read. A whole one has all its fields, and two offsets.
struct Draft {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape, offsets;
};

// Takes the JSON value by value. So its memory is bounded by what the result may hold, whatever the
// JSON is.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Draft> drafts;
  std::map<std::string, std::string> metadata;
  std::string error;

  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) return Refuse(absl::StrCat("'", name, "' occurs twice"));
      in_metadata_ = name == kMetadata;
      if (!in_metadata_) drafts.push_back({.name = name});
    } else if (in_metadata_ && metadata.contains(name)) {
      return Refuse(absl::StrCat("__metadata__: '", name, "' occurs twice"));
    } else if (!in_metadata_ && name != "dtype" && name != "shape" && name != "data_offsets") {
      return Refuse(absl::StrCat("'", drafts.back().name, "' has an unknown field '", name, "'"));
    }
    key_ = name;
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 2 || list_ != nullptr) return Unexpected("an object");
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    const Draft& draft = drafts.back();
    if (draft.dtype && draft.shape && draft.offsets && draft.offsets->size() == 2) return true;
    return Refuse(absl::StrCat("'", draft.name, "' needs dtype, shape and two data_offsets"));
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr) return Unexpected("a list");
    auto& field = key_ == "shape" ? drafts.back().shape : drafts.back().offsets;
    if (key_ == "dtype" || field.has_value()) return Unexpected("a list");
    list_ = &field.emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ != 2 || list_ != nullptr) return Unexpected("text");
    if (in_metadata_) {
      metadata[key_] = value;
      return true;
    }
    if (key_ != "dtype" || drafts.back().dtype.has_value()) return Unexpected("text");
    drafts.back().dtype = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) return Unexpected("a number");
    if (value > uint64_t{std::numeric_limits<int64_t>::max()} ||
        list_->size() >= kTensorDimensionsMax) {
      return Refuse(absl::StrCat("'", drafts.back().name, "': ", key_, " is out of range"));
    }
    list_->push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a fraction"); }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool binary(binary_t&) override { return Unexpected("bytes"); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse(absl::StrCat("is not JSON at byte ", position));
  }

 private:
  bool Refuse(std::string what) {
    if (error.empty()) error = std::move(what);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    const std::string where = drafts.empty() ? "" : absl::StrCat(" at '", drafts.back().name, "'");
    return Refuse(absl::StrCat("has ", what, " where none is expected", where));
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string key_;
  std::vector<int64_t>* list_ = nullptr;
  absl::flat_hash_set<std::string> names_;
};

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors header: ", what));
}

absl::StatusOr<StoredTensor> TensorOf(const Draft& draft) {
  const auto bad = [&](absl::string_view what) {
    return Bad(absl::StrCat("'", draft.name, "' ", what));
  };
  const std::optional<ElementType> type = ElementTypeOf(*draft.dtype);
  if (!type) return bad(absl::StrCat("has an unknown dtype '", *draft.dtype, "'"));
  StoredTensor tensor{.name = draft.name,
                      .type = *type,
                      .shape = *draft.shape,
                      .elements = 1,
                      .offset = (*draft.offsets)[0]};
  for (const int64_t extent : tensor.shape) {
    const std::optional<int64_t> product = CheckedMul(tensor.elements, extent);
    if (!product) return bad("has more elements than fit in memory");
    tensor.elements = *product;
  }
  const std::optional<int64_t> bytes = CheckedMul(tensor.elements, BytesOf(*type));
  if (!bytes) return bad("has more bytes than fit in memory");
  if ((*draft.offsets)[1] < tensor.offset || (*draft.offsets)[1] - tensor.offset != *bytes) {
    return bad(absl::StrCat("has data_offsets ", tensor.offset, " to ", (*draft.offsets)[1],
                            ", but its shape needs ", *bytes, " bytes"));
  }
  return tensor;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes) {
  if (json.empty() || json[0] != '{') return Bad("does not begin with '{'");
  if (static_cast<int64_t>(json.size()) > kSafetensorsHeaderMax) return Bad("is too large");
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json, &handler)) {
    return Bad(handler.error.empty() ? "is not JSON" : handler.error);
  }
  SafetensorsHeader header{.metadata = std::move(handler.metadata)};
  for (const Draft& draft : handler.drafts) {
    LH_ASSIGN_OR_RETURN(StoredTensor tensor, TensorOf(draft));
    header.tensors.push_back(std::move(tensor));
  }
  // Empty tensors come before a tensor that begins at the same place.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const StoredTensor& a, const StoredTensor& b) {
                     return a.offset != b.offset ? a.offset < b.offset : a.bytes() < b.bytes();
                   });
  int64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.offset != end) {
      return Bad(absl::StrCat("'", tensor.name, "' begins at byte ", tensor.offset,
                              tensor.offset < end ? ", inside the tensor before it, which ends at "
                                                  : ", after a gap from byte ",
                              end));
    }
    // No overflow, since it is one of the offsets.
    end += tensor.bytes();
  }
  if (end != data_bytes) {
    return Bad(absl::StrCat("has tensors of ", end, " bytes, but ", data_bytes,
                            " follow: the file ",
                            end > data_bytes ? "is cut off" : "has more than its header says"));
  }
  return header;
}

std::string WriteSafetensorsHeader(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  int64_t offset = 0;
  for (const StoredTensor& tensor : header.tensors) {
    json[tensor.name] = {{"dtype", std::string(NameOf(tensor.type))},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace longhaul
