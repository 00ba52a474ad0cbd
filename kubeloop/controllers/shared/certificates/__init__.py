"""What the loops of certificate signing requests share.

request (PEM) ─▶ Requested: who, and for which names ─▶ rules of the signer that is asked ─▶ Authority: certificate
conditions ─▶ is it approved?  ─┘
"""
