// A folder whose parameters a job is to begin with: a checkpoint's or a Hugging Face model's,
// compared with the job before anything of its values is read. Who submits a job from a folder of
// their own machine and the coordinator check it by this.
#pragma once

#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/config/spec_violation.h"
#include "common/io/filesystem.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// Where each tensor of the job's model lies in its fragments.
std::vector<v1::CheckpointTensor> TensorsOf(const ResolvedJob& resolved);

// Before the spec is resolved: writes out model.transformer if `folder` is a Hugging Face model's
// and the spec names no other model, so that the spec need not say it. Returns what is wrong, in
// fields of the spec (`field`: the one that names the folder); the spec is then as it was. Blocks.
std::vector<SpecViolation> TakeShapeOf(const std::string& folder, const std::string& field,
                                       v1::JobSpec& spec);

// Which tokenizer and chat template the folder of a model has (DataSpec.model_tokenizer,
// model_chat_template): fills them in if a source reads by them. Returns what is wrong, in fields
// of the spec. Blocks.
std::vector<SpecViolation> TakeDataDigests(const std::string& folder, v1::JobSpec& spec);

// Where the tokenizer of a folder's model is: in it, if it is a Hugging Face model's; of a
// checkpoint the one that its job keeps (CheckpointFolder::TokenizerOf). Empty: there is none.
// Blocks.
std::string TokenizerSourceOf(const std::string& folder);

// Before the spec is resolved: text, JSONL and chat that name no tokenizer get that of `folder`, if
// it has one, and the spec has no model.hf; as TakeDataDigests. Blocks.
std::vector<SpecViolation> TakeTokenizerOf(const std::string& folder, v1::JobSpec& spec);

// Whether the folder has the parameters of the job's model; reads manifests, headers and sizes of
// files, since their digests are compared when the job begins. At most one violation: of `field`,
// of model.hf, or of a source of text that names no tokenizer, or the model's, while the folder has
// none; not of one without a name if the vocab is that of bytes. Blocks.
std::vector<SpecViolation> CheckInitialFolder(FileSystem& fs, const std::string& folder,
                                              const std::string& field,
                                              const ResolvedJob& resolved);

// WarningOfDocuments of a folder that CheckInitialFolder accepts. Empty, too, if it does not say
// how it was trained, as a Hugging Face model that was not trained here. Blocks.
std::string WarningOfBeginning(FileSystem& fs, const std::string& folder, const std::string& field,
                               const v1::JobSpec& spec);

}  // namespace longhaul
