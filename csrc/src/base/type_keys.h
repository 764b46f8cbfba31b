/* type_keys.h - type keys, and what their payloads look like. Made by mblob/format/type_keys.py. */
#ifndef MB_TYPE_KEYS_H
#define MB_TYPE_KEYS_H

#define MB_TVM_LAST "0.27"  /* the latest release of TVM whose libraries are read */

#define MB_KEY_LIBRARY "library"
#define MB_KEY_CUDA "cuda"
#define MB_KEY_HIP "hip"
#define MB_KEY_HSACO "hsaco"
#define MB_KEY_OPENCL "opencl"
#define MB_KEY_METAL "metal"
#define MB_KEY_VULKAN "vulkan"
#define MB_KEY_WEBGPU "webgpu"
#define MB_KEY_OPENGL "opengl"
#define MB_KEY_HEXAGON "hexagon"
#define MB_KEY_DNNL_JSON "dnnl_json"
#define MB_KEY_CONST_LOADER "const_loader"
#define MB_KEY_METADATA "metadata"
#define MB_KEY_METADATA_MODULE "metadata_module"
#define MB_KEY_GRAPH_FACTORY "GraphExecutorFactory"
#define MB_KEY_GRAPH_RUNTIME_FACTORY "GraphRuntimeFactory"
#define MB_KEY_AOT_FACTORY "AotExecutorFactory"
#define MB_KEY_RELAY_EXECUTABLE "VMExecutable"
#define MB_KEY_RELAX_EXECUTABLE "relax.VMExecutable"
#define MB_KEY_RELAX_EXECUTABLE_OF_0_16 "relax.Executable"
#define MB_KEY_C "c"
#define MB_KEY_STATIC_LIBRARY "static_library"
#define MB_KEY_EXAMPLE_JSON "examplejson"
#define MB_KEY_SAFETENSORS "safetensors"
#define MB_LIB_KEY "_lib"
#define MB_TREE_KEY "_import_tree"

/* Strings `keys grammar`: a letter for each field, texts between two forms
 * (format/payload_grammar.c). */
#define MB_GRAMMARS_OF_BOTH_DIALECTS \
  "const_loader cy\0" \
  "relax.VMExecutable s\0" \
  "cuda,hip,hsaco,hexagon sfs\0" \
  "webgpu sfs wgsl,webgpu fm\0" \
  "coreml ss\0" \
  "dnnl_json,tensorrt,arm_compute_lib,bnns_json,clml,cublas_json,cudnn_json,hipblas_json,nnapi,msc_tensorrt ssv\0" \
  "c ssvv\0" \
  "static_library sv\0" \
  ""

#define MB_GRAMMARS_OF_CLASSIC \
  "metadata_module \0" \
  "metadata cy\0" \
  "ethos-n e\0" \
  "AotExecutorFactory ns\0" \
  "VMExecutable,relax.Executable,examplejson s\0" \
  "vulkan sfh vulkan sfs\0" \
  "opengl sfs\0" \
  "opencl sfs cl,clbin,xclbin,awsxclbin,aocx fh\0" \
  "metal sfs metal,metallib smfs\0" \
  "GraphExecutorFactory,GraphRuntimeFactory sns\0" \
  "torch ss\0" \
  "mrvl_sim sss\0" \
  "mrvl_hw sssiii\0" \
  "VitisAIRuntime sssv\0" \
  ""

#define MB_GRAMMARS_OF_FFI \
  "vulkan sfm\0" \
  "metal sfm metal,metallib smfs\0" \
  "opencl sfs\0" \
  ""

/* Keys, and what a loader of them needs, in turn. */
#define MB_KEY_NEEDS \
  "nnapi\0" "Android's NNAPI\0" \
  "bnns_json\0" "Apple's BNNS\0" \
  "arm_compute_lib\0" "Arm Compute Library\0" \
  "ethos-n\0" "Arm's Ethos-N driver\0" \
  "coreml\0" "Core ML\0" \
  "hexagon\0" "Hexagon's SDK\0" \
  "mrvl_hw\0" "Marvell's driver\0" \
  "mrvl_sim\0" "Marvell's simulator\0" \
  "metal\0" "Metal\0" \
  "opengl\0" "OpenGL\0" \
  "torch\0" "PyTorch\0" \
  "clml\0" "Qualcomm's CLML\0" \
  "hip,hsaco\0" "ROCm\0" \
  "tensorrt,msc_tensorrt\0" "TensorRT\0" \
  "VitisAIRuntime\0" "Vitis AI\0" \
  "vulkan\0" "Vulkan\0" \
  "webgpu\0" "WebGPU\0" \
  "opencl\0" "an OpenCL driver\0" \
  "cublas_json\0" "cuBLAS\0" \
  "cudnn_json\0" "cuDNN\0" \
  "hipblas_json\0" "hipBLAS\0" \
  "dnnl_json\0" "oneDNN\0" \
  "cuda\0" "the CUDA driver\0" \
  "examplejson\0" "the example runtime\0" \
  ""

#endif
