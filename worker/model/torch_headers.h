// base_headers.h and the torch headers that most sources that see torch include, precompiled for
// them (longhaul_headers).
#pragma once

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/Tensor.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros.h"
#include "c10/core/Device.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "c10/util/Exception.h"
#include "common/base/base_headers.h"
