// A driver of CUDA for machines without one: cuDNN gives the code of a plan to it, and it is taken and never
// run. A caller that asks for a device gets the answer of the toolkit's stub. Loaded under the driver's name,
// before cuDNN looks for one.
namespace {

enum Result { kSuccess = 0, kStub = 34 };  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY

char code;  // what handles point to

Result give(void** handle) {
  *handle = &code;
  return kSuccess;
}

}  // namespace

extern "C" {

Result cuLibraryLoadData(void** library) {
  return give(library);
}
Result cuLibraryGetKernel(void** kernel) {
  return give(kernel);
}
Result cuLibraryUnload(void*) {
  return kSuccess;
}
Result cuGetErrorName(Result, const char** text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return kSuccess;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "there is no GPU";
  return kSuccess;
}

// What cuDNN wants to find, whether it calls it or not.
#define STRATA_REFUSED(name) \
  Result name() {            \
    return kStub;            \
  }
STRATA_REFUSED(cuInit)
STRATA_REFUSED(cuDriverGetVersion)
STRATA_REFUSED(cuDeviceGet)
STRATA_REFUSED(cuDeviceGetCount)
STRATA_REFUSED(cuDeviceGetAttribute)
STRATA_REFUSED(cuCtxGetCurrent)
STRATA_REFUSED(cuCtxGetDevice)
STRATA_REFUSED(cuCtxGetLimit)
STRATA_REFUSED(cuCtxPopCurrent)
STRATA_REFUSED(cuCtxPushCurrent)
STRATA_REFUSED(cuStreamGetCtx)
STRATA_REFUSED(cuLinkCreate)
STRATA_REFUSED(cuLinkAddData)
STRATA_REFUSED(cuLinkComplete)
STRATA_REFUSED(cuLinkDestroy)
STRATA_REFUSED(cuLaunchKernel)
STRATA_REFUSED(cuLaunchKernelEx)
STRATA_REFUSED(cuLaunchCooperativeKernel)
STRATA_REFUSED(cuLibraryLoadFromFile)
STRATA_REFUSED(cuKernelGetAttribute)
STRATA_REFUSED(cuKernelSetAttribute)
STRATA_REFUSED(cuOccupancyMaxPotentialClusterSize)
#undef STRATA_REFUSED

}  // extern "C"
