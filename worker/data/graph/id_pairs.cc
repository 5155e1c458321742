#include "worker/data/graph/id_pairs.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/escaped_text.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/graph/node_ids.h"
#include "worker/data/graph/number_pairs.h"

namespace longhaul {
namespace {

class IdPairReader {
 public:
  IdPairReader(const std::string& path, const GraphFolder& graph)
      : path_(path), graph_(graph), ids_(graph) {}

  absl::StatusOr<std::vector<NodePair>> Read() {
    bool texts = graph_.manifest().ids == GraphIds::kTexts;
    if (texts) {
      LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open({path_, ""}));
      texts = !rows->header().has_value();
    }
    LH_RETURN_IF_ERROR(texts ? ReadTexts() : ReadNumbers());
    if (!pairs_.empty()) return std::move(pairs_);
    return WithHint(absl::InvalidArgumentError(absl::StrCat(path_, ": no pair")),
                    "give pairs source, target, or leave the file out");
  }

 private:
  absl::Status ReadNumbers() {
    return ForEachNumberPair(
        {path_, ""}, [this](const PairPlace& at, int64_t source, int64_t target) -> absl::Status {
          const std::optional<int64_t> from = ids_.NodeOf(source), to = ids_.NodeOf(target);
          if (!from.has_value()) return at.Error(NoNode(absl::StrCat(source)), HintOfIds());
          if (!to.has_value()) return at.ErrorOfTarget(NoNode(absl::StrCat(target)), HintOfIds());
          pairs_.push_back({*from, *to});
          return absl::OkStatus();
        });
  }

  absl::Status ReadTexts() {
    // Empty lines at the end are none.
    std::optional<int64_t> empty;
    return ForEachLine(path_, [&](int64_t line, absl::string_view text) -> absl::Status {
      const auto error = [&](absl::string_view place, absl::string_view what,
                             absl::string_view hint) {
        return WithHint(
            absl::InvalidArgumentError(absl::StrCat(path_, ": line ", line + 1, place, ": ", what)),
            hint);
      };
      if (text.empty()) {
        empty = empty.value_or(line);
        return absl::OkStatus();
      }
      if (empty.has_value()) {
        line = *empty;
        return error("", "an empty line", "remove the line");
      }
      int64_t nodes[2] = {};
      std::optional<absl::string_view> rest = text;
      for (int end = 0; end < 2; ++end) {
        std::string id;
        if (!rest.has_value() || !TakeField(rest, id)) return error("", kNotTwo, kHintOfQuotes);
        const std::optional<int64_t> node = ids_.NodeOf(id);
        if (!node.has_value()) {
          return error(absl::StrCat(", column ", end + 1), NoNode(id),
                       line == 0 ? kHintOfHeading : HintOfIds());
        }
        nodes[end] = *node;
      }
      if (rest.has_value()) return error("", kNotTwo, kHintOfQuotes);
      pairs_.push_back({nodes[0], nodes[1]});
      return absl::OkStatus();
    });
  }

  // Cuts the next field off; after the last one there is no rest. False: its quotes do not match.
  static bool TakeField(std::optional<absl::string_view>& rest, std::string& field) {
    absl::string_view text = *rest;
    if (text.empty() || text[0] != '"') {
      const size_t comma = text.find(',');
      field = std::string(text.substr(0, comma));
      rest =
          comma == absl::string_view::npos ? std::nullopt : std::optional(text.substr(comma + 1));
      return true;
    }
    for (text.remove_prefix(1); !text.empty(); text.remove_prefix(1)) {
      if (text[0] == '"') {
        text.remove_prefix(1);
        if (text.empty() || text[0] != '"') break;
      } else if (text.size() == 1) {
        return false;
      }
      field.push_back(text[0]);
    }
    if (!text.empty() && text[0] != ',') return false;
    rest = text.empty() ? std::nullopt : std::optional(text.substr(1));
    return true;
  }

  static std::string NoNode(absl::string_view id) {
    return absl::StrCat("the graph has no node \"", EscapedText(id.substr(0, 80)), "\"");
  }
  std::string HintOfIds() const {
    if (graph_.manifest().ids == GraphIds::kNone) {
      return absl::StrCat("the graph was imported without --ids: give numbers of nodes, from 0 to ",
                          graph_.nodes() - 1);
    }
    return "give ids as the import read them (--ids)";
  }

  static constexpr char kNotTwo[] = "not two ids, source and target";
  static constexpr char kHintOfQuotes[] =
      "separate them with a comma; put an id that has a comma or a quote into double quotes, and "
      "write its quotes twice";
  static constexpr char kHintOfHeading[] =
      "give ids as the import read them (--ids), without a heading";

  const std::string& path_;
  const GraphFolder& graph_;
  const NodeIds ids_;
  std::vector<NodePair> pairs_;
};

}  // namespace

absl::StatusOr<std::vector<NodePair>> ReadIdPairs(const std::string& path,
                                                  const GraphFolder& graph) {
  return IdPairReader(path, graph).Read();
}

}  // namespace longhaul
