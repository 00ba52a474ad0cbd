"""The program: reads its flags, makes keys and kubeconfig, wires the parts and keeps them running.

main ─▶ up, apiserver (flags) ─▶ pki, kubeconfig ─▶ foreground: start_server … signal … close
"""
