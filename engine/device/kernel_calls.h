// All families of calls: for who looks at the operands of any call.
#pragma once

#include "engine/device/activation_calls.h"
#include "engine/device/attention_calls.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/expert_calls.h"
#include "engine/device/loss_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/row_calls.h"
#include "engine/device/state_calls.h"
