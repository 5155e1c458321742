#include "worker/data/token_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/io/digest.h"
#include "common/io/file_lock.h"
#include "common/io/new_file.h"
#include "common/io/posix_filesystem.h"
#include "common/io/read_only_file.h"
#include "worker/data/document_encoder.h"
#include "worker/data/documents.h"
#include "worker/data/megatron_writer.h"
#include "worker/data/token_files.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

// The text of a batch for each thread.
constexpr size_t kTokensBatchBytes = 2 << 20;
constexpr absl::Duration kLook = absl::Milliseconds(100), kTellTokens = absl::Seconds(1);
// Raise it when a change of the code gives other tokens for the same input. Before 2 a document of
// JSONL above 1 MiB was cut.
constexpr int kTokensMadeBy = 1, kWholeDocuments = 2;

struct FileFacts {
  int64_t bytes = 0;
  // Everything that distinguishes the content.
  std::string key;
};

absl::StatusOr<FileFacts> FactsOf(const std::vector<std::string>& files) {
  FileFacts facts;
  for (const std::string& file : files) {
    struct stat info;
    if (stat(file.c_str(), &info) != 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", file));
    facts.bytes += info.st_size;
    absl::StrAppend(&facts.key, file, "\n", info.st_size, " ", info.st_mtim.tv_sec, " ",
                    info.st_mtim.tv_nsec, " ", info.st_ino, "\n");
  }
  return facts;
}

absl::StatusOr<std::unique_ptr<DocumentReader>> OpenDocuments(const SourceOptions& options,
                                                              const std::string& file,
                                                              TextParts parts) {
  if (options.kind == SourceKind::kJsonl)
    return OpenJsonlDocuments(file, options.field, options.line_bytes_max, options.null_rows);
  return OpenTextDocument(file, parts,
                          options.tokenizer.empty() ? TextBytes::kAny : TextBytes::kUtf8);
}

// Waits until the lock is free, as long as the file that its holder writes grows.
absl::Status AwaitLock(FileLock& lock, const std::string& growing, const std::string& source,
                       const TokenWork& work) {
  uintmax_t size = 0;
  absl::Time grew = SteadyTime(), told = absl::InfinitePast();
  for (;;) {
    const absl::StatusOr<bool> ours = lock.Try();
    if (!ours.ok()) return OfWorkDir(ours.status());
    if (*ours) return absl::OkStatus();
    std::error_code ignored;
    const uintmax_t now = fs::file_size(growing, ignored);
    if (!ignored && now != size) {
      size = now;
      grew = SteadyTime();
    }
    if (SteadyTime() - grew > work.patience) {
      return MarkPeerFault(absl::DeadlineExceededError(
          absl::StrCat(source, ": another process has made no tokens of it for ",
                       absl::FormatDuration(work.patience), " (", growing, ")")));
    }
    if (work.on_wait && SteadyTime() - told > kTellTokens) {
      told = SteadyTime();
      work.on_wait(absl::StrCat("tokens of ", source, ", which another process makes"));
    }
    absl::SleepFor(kLook);
  }
}

constexpr int64_t kNotesBytesMax = 4096;

std::string NotesPath(const std::string& prefix) { return prefix + ".notes"; }

absl::Status WriteNotes(const std::string& prefix, const TextNotes& notes) {
  if (notes.null_rows == 0 && notes.spelled.times == 0) return absl::OkStatus();
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  absl::StatusOr<NewFile> file = NewFile::Create(fs.get(), NotesPath(prefix));
  if (!file.ok()) return OfWorkDir(file.status());
  LH_RETURN_IF_ERROR(OfWorkDir(file->Append(absl::StrCat(
      notes.null_rows, " ", notes.spelled.documents, " ", notes.spelled.times, "\n"))));
  return OfWorkDir(file->Publish());
}

// None if there is no such file, or another one: they are for people.
TextNotes ReadNotes(const std::string& prefix) {
  TextNotes notes;
  const absl::StatusOr<std::string> text = ReadRegularFile(NotesPath(prefix), kNotesBytesMax);
  if (!text.ok()) return notes;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &notes.null_rows) ||
      !absl::SimpleAtoi(words[1], &notes.spelled.documents) ||
      !absl::SimpleAtoi(words[2], &notes.spelled.times))
    return {};
  return notes;
}

class TokenMaker {
 public:
  TokenMaker(const SourceOptions& options, const TokenWork& work, int64_t bytes)
      : options_(options), work_(work), bytes_(bytes) {}

  absl::Status Run(const std::vector<std::string>& files, const std::string& prefix) {
    LH_ASSIGN_OR_RETURN(tokenizer_, TokenizerOf(options_, work_.threads, work_.tokenizer_program));
    spelled_.emplace(tokenizer_.tokenizer->control_tokens());
    const int64_t vocab =
        std::max({tokenizer_.tokenizer->vocab(), tokenizer_.eos + 1, tokenizer_.bos + 1});
    LH_ASSIGN_OR_RETURN(writer_, MegatronWriter::Create(prefix, vocab));
    const size_t most = kTokensBatchBytes * std::max(1, work_.threads);
    DocumentEncoder encoder(&tokenizer_, {.bytes = most, .texts = most / 64},
                            [this](absl::Span<const int32_t> tokens, bool ends_document) {
                              LH_RETURN_IF_ERROR(writer_->Append(tokens));
                              return ends_document ? writer_->EndDocument() : absl::OkStatus();
                            });
    // A first long document takes its time before anything else is told.
    Tell(0);
    for (size_t i = 0; i < files.size() && !Enough(); ++i)
      LH_RETURN_IF_ERROR(AddFile(files[i], encoder));
    LH_RETURN_IF_ERROR(encoder.Flush());
    if (writer_->tokens() == 0)
      return absl::InvalidArgumentError(absl::StrCat(options_.path, ": holds no text"));
    if (work_.on_made) work_.on_made(encoder.text_bytes());
    // The index gets its name last.
    LH_RETURN_IF_ERROR(
        WriteNotes(prefix, {.null_rows = null_rows_, .spelled = spelled_->spelled()}));
    return writer_->Finish();
  }

 private:
  bool Enough() const { return work_.tokens_max > 0 && writer_->tokens() > work_.tokens_max; }

  absl::Status AddFile(const std::string& file, DocumentEncoder& encoder) {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<DocumentReader> documents,
                        OpenDocuments(options_, file, tokenizer_.parts));
    for (DocumentPart part;;) {
      LH_ASSIGN_OR_RETURN(const bool more, documents->Next(part));
      if (!more) break;
      spelled_->Look(part.text, part.ends_document);
      LH_ASSIGN_OR_RETURN(const bool encoded, encoder.Add(std::move(part)));
      if (!encoded) continue;
      if (Enough()) return absl::OkStatus();
      Tell(done_ + documents->taken());
    }
    done_ += documents->taken();
    null_rows_ += documents->null_rows();
    return absl::OkStatus();
  }

  void Tell(int64_t taken) {
    if (!work_.on_wait || SteadyTime() - told_ < kTellTokens) return;
    told_ = SteadyTime();
    work_.on_wait(absl::StrFormat("tokens of %s: %d of %d MiB read", options_.path, taken >> 20,
                                  bytes_ >> 20));
  }

  const SourceOptions& options_;
  const TokenWork& work_;
  const int64_t bytes_;
  int64_t done_ = 0;
  absl::Time told_ = absl::InfinitePast();
  SourceTokenizer tokenizer_;
  std::optional<SpelledControlTokenCount> spelled_;
  int64_t null_rows_ = 0;
  std::unique_ptr<MegatronWriter> writer_;
};

void RemoveOthers(const std::string& folder, const std::string& source, const std::string& kept) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = absl::StartsWith(name, source + "-");
    if (ours && !absl::StartsWith(name, kept)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

absl::Status OfWorkDir(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat("the worker's --work-dir: ", status.message()));
}

absl::StatusOr<std::string> KeptTokens(
    const TokenRecipe& recipe, const std::vector<std::string>& files, const TokenWork& work,
    absl::FunctionRef<bool(const std::string& prefix)> whole,
    absl::FunctionRef<absl::Status(int64_t bytes, const std::string& prefix)> make) {
  if (work.folder.empty())
    return absl::InternalError(absl::StrCat(recipe.source, ": no folder was given for its tokens"));
  LH_ASSIGN_OR_RETURN(const FileFacts facts, FactsOf(files));
  const std::string source = DigestOf(recipe.how).Hex().substr(0, 16);
  const std::string name = absl::StrCat(
      source, "-", DigestOf(absl::StrCat(recipe.how, "\n", recipe.made_of, "\n", facts.key)).Hex());
  std::error_code error;
  fs::create_directories(work.folder, error);
  const std::string prefix = absl::StrCat(work.folder, "/", name);
  if (whole(prefix)) return prefix;
  FileLock lock;
  LH_RETURN_IF_ERROR(OfWorkDir(lock.Open(absl::StrCat(work.folder, "/", source, ".lock"))));
  absl::Status made = AwaitLock(lock, prefix + ".bin.tmp", recipe.source, work);
  if (made.ok() && !whole(prefix)) {
    RemoveOthers(work.folder, source, name);
    made = make(facts.bytes, prefix);
  }
  if (work.on_wait) work.on_wait("");
  LH_RETURN_IF_ERROR(made);
  LH_ASSIGN_OR_RETURN(const FileFacts after, FactsOf(files));
  if (after.key == facts.key) return prefix;
  return absl::InvalidArgumentError(
      absl::StrCat(recipe.source, ": its files changed while tokens were made of them"));
}

absl::StatusOr<MadeTokens> MakeTokens(const SourceOptions& options,
                                      const SourceTokenizer& tokenizer,
                                      const std::vector<std::string>& files,
                                      const TokenWork& work) {
  const bool jsonl = options.kind == SourceKind::kJsonl;
  std::string how =
      absl::StrCat(kTokensMadeBy, "\n", static_cast<int>(options.kind), "\n", options.path, "\n",
                   jsonl ? options.field : "", "\n", options.tokenizer, "\n", tokenizer.eos,
                   work.tokens_max > 0 ? absl::StrCat("\nfirst ", work.tokens_max) : "");
  if (tokenizer.bos != kNoToken) absl::StrAppend(&how, "\nbos ", tokenizer.bos);
  if (options.null_rows == NullRows::kSkip) absl::StrAppend(&how, "\nno null rows");
  std::string made_of = tokenizer.tokenizer->identity();
  // Bytes are the same in parts and whole.
  if (jsonl && !options.tokenizer.empty())
    made_of = absl::StrCat("made by ", kWholeDocuments, "\n", made_of);
  LH_ASSIGN_OR_RETURN(
      const std::string prefix,
      KeptTokens(
          {.source = options.path, .how = how, .made_of = made_of}, files, work,
          [](const std::string& kept) { return OpenMegatronFile(kept, IndexCheck::kPlaces).ok(); },
          [&](int64_t bytes, const std::string& kept) {
            return TokenMaker(options, work, bytes).Run(files, kept);
          }));
  return MadeTokens{prefix, ReadNotes(prefix)};
}

}  // namespace longhaul
