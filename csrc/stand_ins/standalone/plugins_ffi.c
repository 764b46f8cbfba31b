/* For plugins/ffi/plugin.c: the plug-in's convention is the runtime's own. */

/* Without `symbol`, which has all functions of the dialect. */
static const mblob_convention alone_convention = {.struct_size = sizeof(alone_convention),
                                                  .call = mb_ffi_call,
                                                  .to_any = to_any,
                                                  .from_any = from_any,
                                                  .any_release = any_release,
                                                  .call_row = mb_ffi_call_row};
int mb_plugin_convention(const mblob_convention **out) {
  *out = &alone_convention;
  return mb_host_start(&mb_plugin_host_table);
}
