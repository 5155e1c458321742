// torch_headers.h for tests, precompiled for them (longhaul_headers).
#pragma once

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/torch_headers.h"
