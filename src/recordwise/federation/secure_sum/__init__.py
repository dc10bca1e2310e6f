"""The exact sum of many parties' integers modulo 2^b, of which nobody sees a summand.

Double masking with shares for dropouts, in the variant that withstands a server that does not follow the protocol:
Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017, Figure 4. Flower's own
SecAgg+ is not used: it is made for float vectors, which it clips and quantises (a sum of 2 comes out as 2.00286),
it expands mask seeds of 32 bits, which can be searched, and it signs nothing, so a server may pose as any client.

Five exchanges, each one message from every party to the server and one answer back:

    advertise   fresh public keys, signed with the party's long-term key
    share       Shamir shares of the two secrets that could lift the party's mask, sealed for each other party
    mask        the party's vector, plus its own mask, plus or minus one mask per other party
    confirm     a signature on the list of parties whose vectors arrived
    reveal      shares: of the own mask for who is on the list, of the pairwise masks for who vanished; never both
"""

from recordwise.federation.secure_sum.client import SumClient
from recordwise.federation.secure_sum.server import SumServer
from recordwise.federation.secure_sum.session import Session

__all__ = ["Session", "SumClient", "SumServer"]
