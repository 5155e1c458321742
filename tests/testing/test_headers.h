// Headers that nearly all tests include, precompiled for all of them (longhaul_headers).
#pragma once

#include "common/rpc/rpc_headers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
