package main
import ("testing";"time";"fmt";"strings"
"github.com/regentd/regent")
func TestZZ(t *testing.T){
 l,_:=newLab(); defer l.close()
 for _,n:=range []int{0,32}{
 srv,err:=l.redis(); if err!=nil{t.Fatal(err)}
 s,_:=l.store(t.Context(),srv)
 var past []regent.Past
 for i:=range n { past=append(past,regent.Past{Epoch:uint64(i+1),Holder:"UJ3L2KX5ZQWERTYUIOPASDFGHJ",Began:time.Now(),Ended:time.Now(),Reason:"shutdown"}) }
 for _,gap:=range []time.Duration{0,5*time.Millisecond}{
 lease:=regent.Lease{Name:fmt.Sprint("seat",gap),Holder:regent.Identity{ID:"a",Incarnation:"UJ3L2KX5ZQWERTYUIOPASDFGHJ"},Epoch:33,Nonce:1,Duration:30*time.Second,Past:past,Since:time.Now()}
 enc:=len(lease.AppendJSON(nil))
 var sw,ge,raw sample
 for range 400 {
  time.Sleep(gap)
  b:=time.Now(); g,err:=s.Swap(t.Context(),lease); if err!=nil{t.Fatal(err)}; sw=append(sw,time.Since(b)); lease=g; lease.Nonce++
  lease.Epoch++
  time.Sleep(gap)
  b=time.Now(); s.Get(t.Context(),lease.Name); ge=append(ge,time.Since(b))
  time.Sleep(gap)
  b=time.Now(); srv.client.Do(t.Context(),srv.client.B().Get().Key("x").Build()); raw=append(raw,time.Since(b))
 }
 t.Logf("past %d (%d bytes) gap %v: swap p50 %v min %v; get p50 %v min %v; raw GET p50 %v min %v",n,enc,gap,sw.at(50),sw.at(0),ge.at(50),ge.at(0),raw.at(50),raw.at(0))
 }
 b:=time.Now(); k:=regent.Lease{Name:"z",Past:past}; for range 1000 { k.AppendJSON(nil)}; t.Log("AppendJSON",time.Since(b)/1000)
 j:=k.AppendJSON(nil); b=time.Now(); for range 1000 { regent.ParseLease("z","r",j)}; t.Log("ParseLease",time.Since(b)/1000)
 txt,_:=srv.client.Do(t.Context(),srv.client.B().Info().Section("commandstats").Build()).ToString()
 for _,x:=range strings.Split(txt,"\n"){ if strings.Contains(x,"evalsha")||strings.Contains(x,"_get:"){t.Log(strings.TrimSpace(x))}}
 }
}
