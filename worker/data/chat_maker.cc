#include "worker/data/chat_maker.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/new_file.h"
#include "common/io/posix_filesystem.h"
#include "worker/data/chat_rows.h"
#include "worker/data/documents.h"
#include "worker/data/megatron_writer.h"
#include "worker/data/token_cache.h"
#include "worker/data/token_files.h"

namespace longhaul {
namespace {

constexpr size_t kBatchBytes = 2 << 20, kBatchRows = 1024, kMaskBytes = 1 << 20;
// Rows that still have room, among which a conversation finds the one that it fills best.
constexpr size_t kOpenRows = 64;
constexpr absl::Duration kTell = absl::Seconds(1);
// Raise it when a change of the code makes other rows of the same input.
constexpr int kMadeBy = 1;

struct Row {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> marks;
};

class ChatMaker {
 public:
  ChatMaker(const SourceOptions& options, ChatRenderer& renderer, const TokenWork& work,
            int64_t bytes)
      : options_(options), renderer_(renderer), work_(work), bytes_(bytes) {}

  absl::Status Run(const std::vector<std::string>& files, const std::string& prefix) {
    LH_ASSIGN_OR_RETURN(writer_, MegatronWriter::Create(prefix, renderer_.vocab()));
    absl::StatusOr<NewFile> mask = NewFile::Create(fs_.get(), prefix + ".mask");
    if (!mask.ok()) return OfWorkDir(mask.status());
    mask_ = &*mask;
    for (size_t i = 0; i < files.size() && !Enough(); ++i) LH_RETURN_IF_ERROR(AddFile(files[i]));
    for (Row& row : open_) LH_RETURN_IF_ERROR(Write(row));
    if (rows_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.path, ": holds no conversation with a token on which the loss is: ",
                       counts_.conversations, " conversations, of which ", counts_.left_out,
                       " have none among their first ", options_.row_tokens, " tokens"));
    }
    marks_.append(reinterpret_cast<const char*>(&counts_), sizeof(counts_));
    LH_RETURN_IF_ERROR(FlushMask());
    // The index gets its name last, so that it exists only with the other two.
    LH_RETURN_IF_ERROR(OfWorkDir(mask->Publish()));
    return writer_->Finish();
  }

 private:
  bool Enough() const {
    return work_.tokens_max > 0 && rows_ * options_.row_tokens > work_.tokens_max;
  }

  absl::Status AddFile(const std::string& file) {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<DocumentReader> lines,
                        OpenJsonlLines(file, options_.line_bytes_max));
    size_t bytes = 0;
    for (DocumentPart part; !Enough();) {
      LH_ASSIGN_OR_RETURN(const bool more, lines->Next(part));
      if (!more) break;
      bytes += part.text.size();
      batch_.push_back(std::move(part.text));
      numbers_.push_back(part.line);
      if (bytes < kBatchBytes && batch_.size() < kBatchRows) continue;
      LH_RETURN_IF_ERROR(Render(file));
      bytes = 0;
      Tell(done_ + lines->taken());
    }
    LH_RETURN_IF_ERROR(Render(file));
    done_ += lines->taken();
    return absl::OkStatus();
  }

  absl::Status Render(const std::string& file) {
    if (batch_.empty()) return absl::OkStatus();
    LH_RETURN_IF_ERROR(renderer_.Render(batch_, chats_));
    for (size_t i = 0; i < chats_.size(); ++i) {
      if (!chats_[i].ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, ": line ", numbers_[i], ": ", chats_[i].status().message()));
      }
      LH_RETURN_IF_ERROR(Add(*chats_[i]));
    }
    batch_.clear();
    numbers_.clear();
    return absl::OkStatus();
  }

  absl::Status Add(const RenderedChat& chat) {
    ++counts_.conversations;
    const size_t size = std::min<size_t>(chat.tokens.size(), options_.row_tokens);
    if (size < chat.tokens.size()) ++counts_.cut;
    Row row{{chat.tokens.begin(), chat.tokens.begin() + size},
            {chat.counts.begin(), chat.counts.begin() + size}};
    // Nothing predicts a conversation's first token.
    if (size > 0) row.marks[0] = 0;
    if (!absl::c_linear_search(row.marks, kChatCounts)) {
      ++counts_.left_out;
      return absl::OkStatus();
    }
    row.marks[0] = kChatBegins;
    if (!options_.pack) return Write(row);
    const auto room = [&](const Row& open) { return options_.row_tokens - open.tokens.size(); };
    Row* best = nullptr;
    for (Row& open : open_) {
      if (room(open) >= size && (best == nullptr || room(open) < room(*best))) best = &open;
    }
    if (best == nullptr) {
      if (open_.size() == kOpenRows) {
        const auto fullest = absl::c_min_element(
            open_, [&](const Row& a, const Row& b) { return room(a) < room(b); });
        LH_RETURN_IF_ERROR(Write(*fullest));
        open_.erase(fullest);
      }
      open_.push_back(std::move(row));
      return absl::OkStatus();
    }
    best->tokens.insert(best->tokens.end(), row.tokens.begin(), row.tokens.end());
    best->marks.insert(best->marks.end(), row.marks.begin(), row.marks.end());
    return absl::OkStatus();
  }

  absl::Status Write(const Row& row) {
    ++rows_;
    LH_RETURN_IF_ERROR(writer_->Append(row.tokens));
    LH_RETURN_IF_ERROR(writer_->EndDocument());
    marks_.append(row.marks.begin(), row.marks.end());
    return marks_.size() < kMaskBytes ? absl::OkStatus() : FlushMask();
  }

  absl::Status FlushMask() {
    const absl::Status written = mask_->Append(marks_);
    marks_.clear();
    return OfWorkDir(written);
  }

  void Tell(int64_t taken) {
    if (!work_.on_wait || SteadyTime() - told_ < kTell) return;
    told_ = SteadyTime();
    work_.on_wait(absl::StrFormat("tokens of %s: %d of %d MiB read", options_.path, taken >> 20,
                                  bytes_ >> 20));
  }

  const SourceOptions& options_;
  ChatRenderer& renderer_;
  const TokenWork& work_;
  const int64_t bytes_;
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  std::unique_ptr<MegatronWriter> writer_;
  NewFile* mask_ = nullptr;
  std::string marks_;
  std::vector<Row> open_;
  ChatCounts counts_;
  int64_t rows_ = 0, done_ = 0;
  absl::Time told_ = absl::InfinitePast();
  std::vector<std::string> batch_;
  std::vector<int64_t> numbers_;
  std::vector<absl::StatusOr<RenderedChat>> chats_;
};

bool AreWhole(const std::string& prefix) {
  const absl::StatusOr<MegatronFile> file = OpenMegatronFile(prefix, IndexCheck::kPlaces);
  std::error_code error;
  const uintmax_t mask = std::filesystem::file_size(prefix + ".mask", error);
  return file.ok() && !error &&
         mask == static_cast<uintmax_t>(file->tokens.count) + sizeof(ChatCounts);
}

}  // namespace

absl::StatusOr<std::string> MakeChatRows(const SourceOptions& options, ChatRenderer& renderer,
                                         const std::vector<std::string>& files,
                                         const TokenWork& work) {
  const std::string how =
      absl::StrCat("chat ", kMadeBy, "\n", options.path, "\n", options.tokenizer, "\n",
                   options.chat_template, "\n", options.row_tokens, options.pack ? " packed" : "",
                   work.tokens_max > 0 ? absl::StrCat("\nfirst ", work.tokens_max) : "");
  return KeptTokens({.source = options.path, .how = how, .made_of = renderer.identity()}, files,
                    work, &AreWhole, [&](int64_t bytes, const std::string& prefix) {
                      return ChatMaker(options, renderer, work, bytes).Run(files, prefix);
                    });
}

}  // namespace longhaul
