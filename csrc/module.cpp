// The Python module scar_gpu._C: loading it registers the CPU kernels.

#include <Python.h>

#include <cstring>

#include "fork.h"
#include "operations.h"

STABLE_TORCH_LIBRARY_IMPL(scar_gpu, CPU, library) {
  library.impl("row_scale", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::row_scale)>);
  library.impl("continuity", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::continuity)>);
  library.impl("neighbor_scores", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::neighbor_scores)>);
  library.impl("expand", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::expand)>);
  library.impl("scar_expand", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::scar_expand)>);
  library.impl("window_expand", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::window_expand)>);
  library.impl("spans", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::spans)>);
  library.impl("search", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::search)>);
  library.impl("search_expand", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::search_expand)>);
  library.impl("corpus_masks", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::corpus_masks)>);
  library.impl("rank_fusion", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::rank_fusion)>);
  library.impl("parameter_sweep", &scar_gpu::fork_safe<TORCH_BOX(&scar_gpu::parameter_sweep)>);
}

namespace {

PyObject* instruction_sets(PyObject*, PyObject*) {
  PyObject* names = PyList_New(0);
  for (const scar_gpu::InstructionSet* set : scar_gpu::instruction_sets()) {
    PyObject* name = PyUnicode_FromString(set->name);
    PyList_Append(names, name);
    Py_DECREF(name);
  }
  return names;
}

PyObject* use_instruction_set(PyObject*, PyObject* argument) {
  PyObject* bytes = PyUnicode_AsUTF8String(argument);
  if (bytes == nullptr) return nullptr;
  for (const scar_gpu::InstructionSet* set : scar_gpu::instruction_sets()) {
    if (std::strcmp(set->name, PyBytes_AsString(bytes)) != 0) continue;
    scar_gpu::use_instruction_set(*set);
    Py_DECREF(bytes);
    Py_RETURN_NONE;
  }
  Py_DECREF(bytes);
  return PyErr_Format(PyExc_ValueError, "instruction set must be one of instruction_sets(), got %R",
                      argument);
}

PyObject* poison_results(PyObject*, PyObject* argument) {
  const int on = PyObject_IsTrue(argument);
  return on < 0 ? nullptr : PyBool_FromLong(scar_gpu::poison_results(on != 0));
}

PyMethodDef METHODS[] = {
    {"instruction_sets", instruction_sets, METH_NOARGS,
     "Names of the instruction sets this machine can run, fastest first."},
    {"use_instruction_set", use_instruction_set, METH_O,
     "Use another instruction set; every one gives the same bits."},
    {"poison_results", poison_results, METH_O,
     "Whether results are filled before they are computed, for tests; returns what held before."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef MODULE = {PyModuleDef_HEAD_INIT,
                      "_C",
                      "CPU kernels of scar_gpu.",
                      -1,
                      METHODS,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&MODULE); }
